#!/bin/sh
# Prepares, measures and compares matrix products on the GPU at hand, in less than ten minutes on 16 cores:
#     OUT=results sh benchmarks/products.sh
# PYTHON names the interpreter, SUITE the suite (products or shapes), CASES the cases (globs), PREPARED a folder that
# `search prepare` has filled before. In $OUT: products.json (shapes.json), what `search measure` found, kernels, logs.
: "${OUT:?name the folder for results}"
python=${PYTHON:-python3}
name=${SUITE:-products}
suite=benchmarks/suite/suite_$name.json
export PYTHONPATH=".:sdk${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
began=$(date +%s)
left() { echo $((${LIMIT_S:-585} - $(date +%s) + began)); }
work=$(mktemp -d)
mkdir -p "$OUT" "$work/tuned"
card=$(nvidia-smi --query-gpu=name --format=csv,noheader | grep -o -m1 'H[12]00')
chosen=$("$python" -c "
import sys
from benchmarks.kernels.cases import load
from pathlib import Path
print(*(c['id'] for c in load(sys.argv[1].split(','), tiny=False, path=Path(sys.argv[2]))), sep='\n')" "${CASES:-*}" "$suite") || exit
if [ -n "$PREPARED" ]; then
  for case in $chosen; do cp -r "$PREPARED/$case" "$work/tuned/"; done
else
  mkdir "$work/prepared"
  echo "$chosen" | xargs -P 8 -I{} sh -c \
    '"$0" -m search prepare benchmarks/suite/fusions/"$4"/{}.json --card "$1" --per-fusion "$2" --out "$3"/{}' \
    "$python" "${card:-H200}" "${KERNELS:-24}" "$work/prepared" "$name" >"$OUT/prepare.log" 2>&1
  mv "$work"/prepared/*/* "$work/tuned"
fi
echo "prepared after $(($(date +%s) - began)) s"
"$python" -m search measure "$work/tuned" --budget-s "${MEASURE_S:-150}" >"$OUT/measure.log" 2>&1
cp "$work/tuned/results.json" "$OUT/measured.json"
tar -C "$work/tuned" -czf "$OUT/kernels.tar.gz" kernels
echo "measured after $(($(date +%s) - began)) s"
timeout "$(left)" "$python" -m benchmarks.kernels.run --suite "$suite" --cases "$(echo "$chosen" | paste -sd,)" \
  --kernels "$work/tuned/kernels" --modes "${MODES:-plugin,eager,default,max}" --json "$OUT/$name.json" 2>&1 |
  tee "$OUT/run.log"
rm -rf "$work"
