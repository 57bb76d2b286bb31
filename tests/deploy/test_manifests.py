"""Units, manifests and the image: the command line takes their commands, and supervisors wait for the grace."""

import re
import tomllib
from datetime import timedelta
from pathlib import Path

import pytest
import typer.main
import yaml
from tests.deploy.manifests import COMPOSE, DEPLOY, KUBERNETES, UNITS, Place, documents, places

from leasehold.cli import app
from leasehold.runtime.process import FORCED_END

ROOT = DEPLOY.parent
PLACES = places()
LASTING = [place for place in PLACES if place.words[0] in ("worker", "serve", "scheduler") and place.patience]
# After the grace: canceled handlers have 5 s, and the process ends by force after this.
LONGEST_END = timedelta(seconds=FORCED_END + 5)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
def test_the_command_line_takes_the_command(place: Place) -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    with group.make_context("leasehold", list(place.words)) as context:
        name, command, rest = group.resolve_command(context, list(place.words))
        assert command is not None
        assert name is not None
        with command.make_context(name, rest, parent=context) as parsed:
            assert not parsed.args


def test_each_way_to_deploy_has_a_worker_an_api_and_migrations() -> None:
    for files in ("leasehold-", "compose", "kubernetes"):
        assert {"worker", "serve", "migrate"} <= {place.words[0] for place in PLACES if place.file.startswith(files)}


@pytest.mark.parametrize("place", LASTING, ids=lambda place: place.name)
def test_a_supervisor_waits_until_the_worker_has_drained(place: Place) -> None:
    assert place.patience is not None
    assert place.patience >= place.grace + LONGEST_END


def test_containers_are_probed_and_run_without_rights() -> None:
    for document in (document for file in KUBERNETES for document in documents(file)):
        if document["kind"] not in ("Deployment", "Job"):
            continue
        pod = document["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["resources"]["limits"].keys() == {"memory"}
        if document["kind"] == "Deployment":
            assert container.keys() >= {"startupProbe", "livenessProbe", "readinessProbe"}
            assert "lifecycle" not in container


def test_selectors_match_the_labels_of_their_pods() -> None:
    found = [document for file in KUBERNETES for document in documents(file)]
    labels = [each["spec"]["template"]["metadata"]["labels"] for each in found if each["kind"] == "Deployment"]
    for each in found:
        if each["kind"] in ("Deployment", "PodDisruptionBudget"):
            assert each["spec"]["selector"]["matchLabels"] in labels
        elif each["kind"] == "Service":
            assert each["spec"]["selector"] in labels


def test_the_kustomization_has_every_manifest() -> None:
    (listed,) = documents(DEPLOY / "kubernetes/kustomization.yaml")
    assert sorted([*listed["resources"], "kustomization.yaml"]) == [file.name for file in KUBERNETES]


def test_prometheus_finds_the_services_and_the_port_of_their_metrics() -> None:
    (config,) = documents(DEPLOY / "prometheus/prometheus.yaml")
    (found,) = config["scrape_configs"][0]["dns_sd_configs"]
    for name in found["names"]:
        words = COMPOSE["services"][name]["command"]
        assert words[words.index("--metrics-port") + 1] == str(found["port"])


def test_files_that_compose_mounts_exist() -> None:
    mounted = [
        volume.partition(":")[0]
        for service in COMPOSE["services"].values()
        for volume in service.get("volumes", ())
        if volume.startswith(".")
    ]
    assert mounted
    assert [name for name in mounted if not (DEPLOY / name).exists()] == []


def test_the_image_has_extras_and_files_that_exist() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = {extra for extras in re.findall(r"\[([a-z,]+)\]\"", text) for extra in extras.split(",")}
    assert asked
    assert asked <= known.keys()
    copied = [words.split()[:-1] for words in re.findall(r"^COPY (?!--)(.+)$", text, re.MULTILINE)]
    assert [name for names in copied for name in names if not (ROOT / name).exists()] == []


def test_the_image_installs_only_extras_that_it_has_wheels_of() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    wheeled, installed = (set(extras.split(",")) for extras in re.findall(r"\[([a-z,]+)\]\"", text))
    assert installed - wheeled == set()


def test_no_file_has_a_password() -> None:
    for file in (path for path in DEPLOY.rglob("*") if path.is_file()):
        for password in re.findall(r"postgresql://[^:/@\s]+:([^@\s]+)@", file.read_text()):
            assert password.startswith("${"), file


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_never_uses_an_embedded_database(unit: Path) -> None:
    assert "LEASEHOLD_EMBEDDED=off" in unit.read_text()


def test_yaml_files_are_read() -> None:
    for file in DEPLOY.rglob("*.yaml"):
        assert list(yaml.safe_load_all(file.read_text())), file
