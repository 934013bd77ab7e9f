#!/bin/sh
# Tables of measured points for benchmarks.search.replay, one after the other on the GPU at hand:
#     OUT=results CASES='softmax_bf16_4096x1024 col_sum_bf16_8192x8192' sh benchmarks/search/tables.sh
# POINTS a table, BUDGET_S at most for each, DEVICE=fake shows that a run works. What a table has by the end of its time is
# written; the journals stay in JOURNALS, from which a later run goes on.
: "${OUT:?name the folder for results}" "${CASES:?name cases of the public or the varied suite}"
python=${PYTHON:-python3}
export PYTHONPATH=.:sdk PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
journals=${JOURNALS:-$(mktemp -d)}
mkdir -p "$OUT"
began=$(date +%s)
for case in $CASES; do
  suite=benchmarks/suite/suite_varied.json
  grep -q "\"id\": *\"$case\"" benchmarks/suite/suite_public.json && suite=benchmarks/suite/suite_public.json
  "$python" -m benchmarks.search.table "$suite" --case "$case" --points "${POINTS:-2000}" --budget-s "${BUDGET_S:-90}" \
    --device "${DEVICE:-cuda}" --journal "$journals" --out "$OUT/$case.t4.json.gz" || echo "$case: no table"
  echo "$case after $(($(date +%s) - began)) s"
done
