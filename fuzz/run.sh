#!/usr/bin/env bash
# Runs every fuzz target for so many seconds each, one after the other, and says how many inputs each tried.
# usage: fuzz/run.sh SECONDS [TARGET]...
set -euo pipefail
cd "$(dirname "$0")"
seconds=${1:?usage: fuzz/run.sh SECONDS [TARGET]...}
shift
root="$PWD/../target/fuzz"
export RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR="$root"
triple=$(rustc --print host-tuple)
mkdir -p "$root/found" "$root/corpus"
# What earlier runs found worth keeping, as few inputs as reach the same code.
tar -xJf corpus.tar.xz -C "$root/corpus" --skip-old-files
cargo fuzz build --fuzz-dir . any
if [ $# -eq 0 ]; then
  for file in fuzz_targets/*.rs; do
    name=${file##*/}
    [ "$name" = any.rs ] || set -- "$@" "${name%.rs}"
  done
fi
failed=0
for target in "$@"; do
  mkdir -p "$root/corpus/$target"
  # What a few kilobytes can do is what is looked for; memory is bounded as a reader's would be.
  if ASSAY_FUZZ_TARGET=$target "$root/$triple/release/any" -max_total_time="$seconds" -max_len=16384 -rss_limit_mb=1024 -timeout=10 \
    -print_final_stats=1 -artifact_prefix="$root/found/$target-" \
    "$root/corpus/$target" "seeds/$target" >"$root/$target.log" 2>&1; then
    result=ok
  else
    result=FAILED
    failed=1
  fi
  inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$root/$target.log")
  echo "$target: $result, ${seconds} s, ${inputs:-no count of} inputs"
done
exit "$failed"
