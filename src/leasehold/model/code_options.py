"""Programs that run code, or another program, from their arguments; by name, without version and without folder."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from posixpath import basename


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A program whose first operand is a script.

    `code` are the options that take code, `value` those that take a value, `script` those that take the script.
    With `whole`, an option is a word with one dash, as in `-eval`; otherwise `-Ic` are the options `-I` and `-c`.
    """

    code: tuple[str, ...]
    value: tuple[str, ...] = ()
    script: tuple[str, ...] = ()
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """A program that runs code from some of its arguments, and is useful without.

    `code` are the options that take code, `value` those that take a value, `suffix` those that take the rest of
    their word only. All arguments behind an option of `opens` are code, and so is the first operand with `operand`,
    unless an option has given code before. With `all`, any argument may become code. With `expressions`, the program
    reads options behind `--`, too.
    """

    code: tuple[str, ...] = ()
    value: tuple[str, ...] = ()
    suffix: tuple[str, ...] = ()
    opens: tuple[str, ...] = ()
    operand: bool = False
    all: bool = False
    expressions: bool = False
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Carrier:
    """A program that runs another one by a subcommand of `verbs`: behind `--`, or behind this many operands."""

    verbs: tuple[str, ...]
    operands: int
    value: tuple[str, ...] = ()
    code: tuple[str, ...] = ()


LAUNCHERS = frozenset(
    {
        *("env", "xargs", "parallel", "sudo", "doas", "su", "runuser", "gosu", "su-exec", "pkexec", "ssh", "rsh"),
        *("nohup", "setsid", "nice", "ionice", "chrt", "taskset", "numactl", "prlimit", "cgexec", "setarch"),
        *("linux32", "linux64", "timeout", "time", "stdbuf", "unbuffer", "chroot", "fakeroot", "unshare", "nsenter"),
        *("bwrap", "firejail", "capsh", "setpriv", "systemd-run", "start-stop-daemon", "daemonize", "dumb-init"),
        *("tini", "catatonit", "s6-setuidgid", "chpst", "runsv", "watch", "entr", "script", "screen", "tmux", "at"),
        *("batch", "flock", "setlock", "strace", "ltrace", "valgrind", "perf", "catchsegv", "rlwrap", "socat"),
        *("ncat", "busybox", "toybox", "ld.so", "ld-linux", "ld-linux-x86-64.so", "proot", "torsocks"),
        *("proxychains", "faketime", "sshpass", "ssh-agent", "choom", "cpulimit", "hyperfine", "aa-exec", "runcon"),
        *("logsave", "multitime", "softlimit", "chronic", "ifne", "run-parts", "execlineb", "xvfb-run"),
        *("dbus-run-session", "xterm", "gnome-terminal", "crontab", "ed"),
    }
)
"""Programs whose argument is another program: the one that runs would be hidden from every check."""

MULTI_CALL = frozenset({"busybox", "toybox", "coreutils", "uutils"})
"""Files that are many programs: which one, is told by the name of the link to them."""


def _prefixes(*options: str) -> tuple[str, ...]:
    """Returns all ways in which PowerShell lets an option be written."""
    return tuple(dict.fromkeys(option[:size] for option in options for size in range(2, len(option) + 1)))


_SHELL = Interpreter(("-c", "--command"), ("-o", "-O", "+o", "+O", "--rcfile", "--init-file"))
_FISH = Interpreter(("-c", "--command", "-C", "--init-command"), ("-d", "-o", "-f", "-D"))
_POWERSHELL = Interpreter(
    (*_prefixes("-command", "-encodedcommand", "-commandwithargs"), "-ec", "-cwa"),
    _prefixes("-executionpolicy", "-workingdirectory", "-outputformat", "-inputformat", "-configurationname"),
    _prefixes("-file"),
    whole=True,
)
_PYTHON = Interpreter(("-c",), ("-W", "-X", "--check-hash-based-pycs"), ("-m",))
_AWK = Interpreter(
    ("-e", "--source"), ("-v", "-F", "--assign", "--field-separator"), ("-f", "--file", "-E", "--exec")
)
_NODE = Interpreter(("-e", "-p", "-pe", "--eval", "--print"), ("-r", "--require", "--import", "--loader", "-C"))
_RUBY = Interpreter(("-e",), ("-I", "-r", "-C", "-E"))
_R = Interpreter(("-e",), ("--args",), ("-f", "--file"))
_PHP = Interpreter(("-r", "-B", "-R", "-E", "--run"), ("-d", "-c", "--define"), ("-f", "--file"))
_TCL = Interpreter(("-c",), ("-encoding",))
_LISP = Interpreter(("-c", "-e", "-x", "--eval", "--expression", "-eval"), ("-l", "-L", "--load"), ("-s", "--script"))
_BEAM = Interpreter(("-e", "-eval", "--eval", "-run", "-s", "--rpc-eval"), ("-pa", "-pz", "-r", "-S"), whole=True)
_JAVA = Interpreter(("-e",), ("-cp", "-classpath", "--class-path", "-p", "--module-path"), ("-jar", "-m"), whole=True)
_NPX = Interpreter(("-c", "--call", "--shell-mode"), ("-p", "--package"))


def _named(names: str, kind: "Interpreter | Tool | Carrier") -> "dict[str, Interpreter | Tool | Carrier]":
    return dict.fromkeys(names.split(), kind)


_SHELLS = (
    "sh ash bash dash zsh ksh mksh lksh oksh pdksh yash posh osh ysh hush sash csh tcsh nu xonsh elvish git-shell"
)
_CONTAINER_VALUES = (
    *("-e", "--env", "--env-file", "-u", "--user", "-w", "--workdir", "--detach-keys", "-v", "--volume", "--name"),
    *("--network", "--net", "-p", "--publish", "--mount", "-l", "--label", "-h", "--hostname", "-m", "--memory"),
    *("--cpus", "--platform", "--index", "-c", "--container", "-n", "--namespace", "--context", "-f", "--filename"),
)
PROGRAMS: "dict[str, Interpreter | Tool | Carrier]" = {
    **_named(_SHELLS, _SHELL),
    **_named("rbash rksh rzsh", _SHELL),
    **_named("fish", _FISH),
    **_named("pwsh powershell", _POWERSHELL),
    **_named("cmd", Interpreter(("/c", "/k", "/r"))),
    **_named("python pythonw pypy pypy-c ipython jython micropython graalpy", _PYTHON),
    **_named("awk gawk mawk nawk goawk original-awk", _AWK),
    **_named("node nodejs qjs", _NODE),
    **_named("bun", Interpreter(("-e", "-p", "--eval", "--print", "exec", "x"), ("-r", "--preload"), ("run",))),
    **_named("deno", Interpreter(("eval", "repl"), script=("run",))),
    **_named("lua luajit texlua", Interpreter(("-e",), ("-l",))),
    **_named("perl", Interpreter(("-e", "-E"), ("-I", "-M", "-m"))),
    **_named("ruby jruby truffleruby irb", _RUBY),
    **_named("php php-cgi", _PHP),
    **_named("rscript r littler", _R),
    **_named("julia", Interpreter(("-e", "-E", "--eval", "--print"), ("-p", "-t", "-L", "-J", "-C"))),
    **_named(
        "octave octave-cli matlab", Interpreter(("-r", "-batch", "--eval"), ("-sd", "-p", "--path"), whole=True)
    ),
    **_named("osascript", Interpreter(("-e",), ("-l",))),
    **_named("tclsh wish expect", _TCL),
    **_named("guile racket sbcl clisp ecl csi gsi scheme clojure clj bb emacs-lisp", _LISP),
    **_named("erl elixir iex escript", _BEAM),
    **_named("java groovy scala kotlin jshell", _JAVA),
    **_named(
        "runghc runhaskell ghci ocaml swipl gnuplot dc", Interpreter(("-e", "-g", "-t", "--eval", "--expression"))
    ),
    **_named("npx bunx pnpx", _NPX),
    **_named(
        "nix-shell", Interpreter(("--run", "--command", "-E", "--expr"), ("-p", "-A", "-I", "--arg", "--argstr"))
    ),
    # ---------------------------------------------------------------------------------------------------------- tools
    **_named(
        "sed gsed ssed",
        Tool(("-e", "--expression", "-f", "--file"), ("-l", "--line-length"), suffix=("-i",), operand=True),
    ),
    **_named(
        "tar gtar bsdtar star",
        Tool(
            (
                *("--to-command", "--checkpoint-action", "-I", "--use-compress-program", "-F", "--info-script"),
                *("--new-volume-script", "--rsh-command", "--rmt-command"),
            ),
            ("-f", "-C", "-T", "-X", "-b", "-g"),
        ),
    ),
    **_named("cpio", Tool(("--rsh-command",))),
    **_named("zip", Tool(("-TT", "--unzip-command"), whole=True)),
    # Their variables, and the names of targets, are expanded within commands of a shell.
    **_named("make gmake bmake just m4", Tool(all=True)),
    **_named("find gfind", Tool(opens=("-exec", "-execdir", "-ok", "-okdir"), expressions=True, whole=True)),
    **_named("fd fdfind", Tool(opens=("-x", "-X", "--exec", "--exec-batch"))),
    **_named(
        "git",
        Tool(
            ("-c", "--config", "--config-env", "--exec-path", "--upload-pack", "--receive-pack", "--exec", "--extcmd")
        ),
    ),
    **_named("rsync", Tool(("-e", "--rsh", "--rsync-path"))),
    **_named("scp sftp", Tool(("-o", "-S", "-D", "-F"), ("-i", "-P", "-l", "-c", "-J"))),
    **_named(
        "gdb lldb",
        Tool(
            (
                *("-ex", "-iex", "-x", "-ix", "--eval-command", "--init-eval-command", "--command", "--init-command"),
                *("-o", "-O", "-k", "-K", "-s", "-S", "--one-line", "--one-line-before-file", "--source"),
            ),
            whole=True,
        ),
    ),
    **_named("vi vim vimdiff view nvim rvim ex", Tool(("-c", "--cmd", "-S", "-s", "-u", "-w"), ("-t", "-T"))),
    **_named(
        "emacs emacsclient",
        Tool(("-eval", "--eval", "-e", "--execute", "-f", "--funcall", "-l", "--load", "--script"), whole=True),
    ),
    **_named(
        "psql", Tool(("-c", "--command", "-f", "--file"), ("-d", "-h", "-p", "-U", "-F", "-P", "-R", "-T", "-o"))
    ),
    **_named("mysql mariadb", Tool(("-e", "--execute", "--init-command"), ("-u", "-h", "-P", "-D", "-S"))),
    **_named("sqlite", Tool(("-cmd", "-init"), all=True, whole=True)),
    **_named("wget", Tool(("-e", "--execute", "--use-askpass", "--config"), ("-O", "-o", "-P", "-U", "-a", "-i"))),
    **_named(
        "curl", Tool(("-K", "--config"), ("-o", "-d", "-H", "-u", "-A", "-e", "-b", "-c", "-F", "-T", "-x", "-X"))
    ),
    **_named("split gsplit", Tool(("--filter",), ("-a", "-b", "-C", "-l", "-n", "-t"))),
    **_named("sort gsort", Tool(("--compress-program",), ("-k", "-o", "-S", "-t", "-T"))),
    **_named("tcpdump", Tool(("-z",), ("-B", "-c", "-C", "-F", "-G", "-i", "-r", "-s", "-w", "-W"))),
    **_named("lftp", Tool(("-c", "-e", "-f"), ("-p", "-u"))),
    **_named("mongosh mongo", Tool(("--eval", "-f", "--file"), ("-u", "-p"), whole=True)),
    **_named("duckdb", Tool(("-c", "-s", "-f", "-cmd", "-init"), all=True, whole=True)),
    **_named("clickhouse-client", Tool(("-q", "--query", "--queries-file"), ("-h", "-u", "-d"))),
    **_named("redis-cli valkey-cli", Tool(("--eval",), ("-h", "-p", "-n", "-u", "-a"))),
    **_named("ansible ansible-playbook", Tool(("-a", "--args", "-e", "--extra-vars", "-m", "--module-name"))),
    **_named("nmap", Tool(("--script", "--script-args", "--script-args-file"), whole=True)),
    **_named("pandoc", Tool(("-F", "--filter", "-L", "--lua-filter", "--pdf-engine"), ("-o", "-f", "-t"))),
    **_named("blender", Tool(("-P", "--python", "--python-expr", "--python-text"), ("-o", "-F", "-f"), whole=True)),
    **_named("cmake", Tool(("-P", "-E", "-D", "-C"), ("-S", "-B", "-G"))),
    **_named("rpm rpmbuild", Tool(("-E", "--eval", "-D", "--define", "--pipe"))),
    **_named("man", Tool(("-P", "--pager", "-H", "--html"))),
    **_named("gcc g++ cc clang", Tool(("-wrapper", "-specs", "--specs", "-fplugin"), whole=True)),
    # ------------------------------------------------------------------------------------------------------- carriers
    **_named(
        "docker podman nerdctl",
        Carrier(("exec", "run", "create"), 1, _CONTAINER_VALUES, ("--entrypoint", "--health-cmd")),
    ),
    **_named("kubectl oc", Carrier(("exec", "run", "debug"), 1, _CONTAINER_VALUES)),
    **_named("lxc incus", Carrier(("exec",), 1, ("--env", "--user", "--group", "--cwd", "--mode"))),
    **_named(
        "uv poetry pipenv rye hatch pdm conda micromamba npm pnpm yarn bundle",
        Carrier(
            ("run", "exec", "x", "dlx"),
            0,
            ("-p", "--python", "--with", "-n", "--name", "--project"),
            ("-c", "--call"),
        ),
    ),
}

_SUFFIX = re.compile(
    r"(?<=[a-z])(?:[-_.]?\d[\w.+-]*|[-_.](?:dbg|debug|static|minimal|bin|real|basic|tiny|nox|gtk))+$"
)


def known_name(program: str) -> str | None:
    """Returns the name under which a program is known here: python3.12-dbg is python. None if it is not."""
    name = basename(program).lower().lstrip("-").removesuffix(".exe")
    for each in (name, _SUFFIX.sub("", name)):
        if each in LAUNCHERS or each in PROGRAMS:
            return each
    return None


def is_among(option: str, known: Iterable[str]) -> bool:
    """Returns whether an option is one of these. Programs accept the beginning of a long option, too."""
    shortened = option.startswith("--") and len(option) > 2
    return any(option == each or (shortened and each.startswith(option)) for each in known)
