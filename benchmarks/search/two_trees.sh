#!/bin/sh
# Searches the public suite with two trees of fusetune on the GPU at hand and times what they find in turns:
#     OUT=results OLD=/path/to/old NEW=. sh benchmarks/search/two_trees.sh
# For each tree, so many candidates of each case are compiled (KERNELS) on all cores, and measured for so long (MEASURE_S,
# both trees alike): what a search of 20 s with some compilers comes to. PYTHON names the interpreter, CASES the cases.
: "${OUT:?name the folder for results}" "${OLD:?name the old tree}"
new=$(cd "${NEW:-.}" && pwd)
old=$(cd "$OLD" && pwd)
out=$(mkdir -p "$OUT" && cd "$OUT" && pwd)
python=${PYTHON:-python3}
kernels=${KERNELS:-56}
jobs=${JOBS:-15}
work=$(mktemp -d)
export PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
card=${CARD:-$(nvidia-smi --query-gpu=name --format=csv,noheader | grep -o -m1 'H[12]00')}
began=$(date +%s)
says() { echo "$1 after $(($(date +%s) - began)) s"; }
cases=${CASES:-$("$python" -c "
import json, sys
found = json.load(open(sys.argv[1]))['cases']
print(*(c['id'] for c in found if not c['id'].startswith(('mm_', 'tmem_'))))" "$old/benchmarks/suite/suite_public.json")}

for case in $cases; do
  for tree in old new; do echo "$tree $case"; done
done | xargs -P "$jobs" -L 1 sh -c '
  [ "$6" = old ] && cd "$3" || cd "$4"
  PYTHONPATH=.:sdk timeout "${PREPARE_S:-150}" "$0" -m search prepare "benchmarks/suite/fusions/$7.json" --card "$1" \
    --per-fusion "$2" --out "$5/$6-$7" >"$5/$6-$7.log" 2>&1 || echo "$6 $7: not prepared"
' "$python" "$card" "$kernels" "$old" "$new" "$work"
says prepared

mkdir "$work/old" "$work/new"
for case in $cases; do # of both trees or of neither: the time is shared out among the cases
  [ -d "$work/old-$case/$case" ] && [ -d "$work/new-$case/$case" ] || continue
  for tree in old new; do mv "$work/$tree-$case/$case" "$work/$tree/"; done
done
for tree in old new; do
  [ "$tree" = old ] && cd "$old" || cd "$new"
  PYTHONPATH=.:sdk "$python" -m search measure "$work/$tree" --budget-s "${MEASURE_S:-85}" >"$out/measure-$tree.log" 2>&1
  cp "$work/$tree/results.json" "$out/results-$tree.json"
  says "measured $tree"
done
cd "$new" && PYTHONPATH=.:sdk "$python" -m benchmarks.search.winners "$work/old" "$work/new" \
  --budget-s "${PAIRS_S:-110}" --json "$out/winners.json" 2>&1 | tee "$out/winners.log"
says compared
tar -C "$work" -czf "$out/kernels.tar.gz" old/kernels new/kernels
cat "$work"/*.log >"$out/prepare.log"
rm -rf "$work"
