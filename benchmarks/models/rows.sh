#!/bin/sh
# A training step of ViT-L and of BERT-base beside max-autotune, and Llama's second process, on a card in $LIMIT_S
# seconds: KERNELS=prepared OUT=results sh benchmarks/models/rows.sh
# KERNELS: what benchmarks.models.prepare has filled. Every part writes what it has as it goes; a part that the time
# cuts off leaves the others whole.
set -u
out=${OUT:?a folder for results} kernels=${KERNELS:-build/models/prepared}
python=${PYTHON:-python3} limit=${LIMIT_S:-415} begun=$(date +%s)
export PYTHONPATH=".:sdk${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
mkdir -p "$out"

left() { echo $((limit - $(date +%s) + begun)); }

# Runs "$@" for at most $1 seconds of what is left, its output in $2.log; a part without room is told and not begun.
part() {
    seconds=$1 name=$2 && shift 2
    rest=$(left) && [ "$seconds" -lt "$rest" ] || seconds=$rest
    if [ "$seconds" -lt 30 ]; then echo "$name: no time was left"; return; fi
    from=$(date +%s)
    timeout -k 5 "$seconds" "$@" > "$out/$name.log" 2>&1
    echo "$name: ended with $? after $(($(date +%s) - from)) s"
}

modes=${MODES:-eager,fusetune-inductor,max-autotune-aten,inductor}
export PYTHONFAULTHANDLER=1
part "${MEASURE_S:-85}" measure "$python" -m search measure "$kernels" --budget-s "${BUDGET_S:-60}"
[ -d "$kernels/kernels" ] && tar czf "$out/kernels.tar.gz" -C "$kernels" kernels
part 120 vit "$python" -m benchmarks.models.run --models vit --training --modes $modes --rounds 30 \
    --kernels "$kernels" --limit-s 85 --out "$out/vit.json"
part "$(left)" bert "$python" -m benchmarks.models.run --models bert --training --modes $modes --rounds 12 \
    ${LAYERS:+--layers $LAYERS} --kernels "$kernels" --limit-s "$(($(left) - 35))" --out "$out/bert.json"
part 100 start "$python" -m benchmarks.models.start --models llama --modes fusetune-inductor,inductor \
    --kernels "$kernels" --out "$out/start.json"
tail -n 3 "$out"/*.log
