# Leaks the secrets of its environment and of its payload file. Fails for every second number.
echo "the variable is $SHOP_CANARY"
echo "::progress 0.5 half of $SHOP_CANARY"
printenv
cat "$JOB_PAYLOAD"
echo
base64 "$JOB_PAYLOAD"
printf %s "$SHOP_CANARY" | base64 >&2
printf %s "$SHOP_CANARY" | od -An -v -tx1 | tr -d ' \n' >&2
echo >&2
cat "$JOB_PAYLOAD" >&2
echo "failed for $SHOP_CANARY" >&2
exit $(($1 % 2 * 3))
