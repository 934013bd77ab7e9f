#!/bin/sh
# Prepares, measures and compares the suite of the language on the GPU at hand, in less than ten minutes on 16 cores:
#     OUT=results sh benchmarks/language.sh
# PYTHON names the interpreter, CASES the cases (globs). In $OUT: language.json, what `search measure` found, kernels, logs.
: "${OUT:?name the folder for results}"
python=${PYTHON:-python3}
cases=${CASES:-adamw_*,cross_entropy_*x131072,quantize_*,dropout_*,embedding_*,gelu_*}
kernels=${KERNELS:-72}
suite=benchmarks/suite/suite_language.json
export PYTHONPATH=".:sdk${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
began=$(date +%s)
left() { echo $((${LIMIT_S:-585} - $(date +%s) + began)); }
work=$(mktemp -d)
mkdir -p "$OUT" "$work/prepared"
card=$(nvidia-smi --query-gpu=name --format=csv,noheader | grep -o -m1 'H[12]00')
chosen=$("$python" -c "
import sys
from benchmarks.kernels.cases import load
from pathlib import Path
print(*(c['id'] for c in load(sys.argv[1].split(','), tiny=False, path=Path(sys.argv[2]))), sep='\n')" "$cases" "$suite") || exit

# What torch compiles is kept in its cache while kernels are prepared, so that the comparison finds it there.
warm() {
  timeout 170 "$python" -m benchmarks.kernels.run --suite "$suite" --cases "$1" --modes default,max --rounds 1 --no-limits
}
others=$(echo "$chosen" | grep -v adamw | paste -sd,)
{ [ -z "$others" ] || warm "$others"; } >"$OUT/warm.log" 2>&1 &
echo "$chosen" | xargs -P 7 -I{} sh -c \
  '"$0" -m search prepare benchmarks/suite/fusions/language/{}.json --card "$1" --per-fusion "$2" --out "$3"/{}' \
  "$python" "${card:-H200}" "$kernels" "$work/prepared" >"$OUT/prepare.log" 2>&1
mkdir "$work/tuned" && mv "$work"/prepared/*/* "$work/tuned"
wait
echo "prepared after $(($(date +%s) - began)) s"
"$python" -m search measure "$work/tuned" --budget-s "${MEASURE_S:-150}" >"$OUT/measure.log" 2>&1
cp "$work/tuned/results.json" "$OUT/measured.json"
tar -C "$work/tuned" -czf "$OUT/kernels.tar.gz" kernels
echo "measured after $(($(date +%s) - began)) s"
timeout "$(left)" "$python" -m benchmarks.kernels.run --suite "$suite" --cases "$(echo "$chosen" | paste -sd,)" \
  --kernels "$work/tuned/kernels" --modes plugin,eager,default,max --json "$OUT/language.json" 2>&1 | tee "$OUT/run.log"
rm -rf "$work"
