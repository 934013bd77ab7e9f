#!/bin/sh
# How long a post waits, on the GPU at hand, with a service and a worker of its own: the tables of "From a post to the best
# kernel" in benchmarks/README.md.
#     OUT=results PARTS='first near size' sh benchmarks/search/post.sh
# Parts, in the order in which they are given, each at most so many seconds (FIRST_S, NEAR_S, SIZE_S, FEW_S):
#   first  all 72 cases, cancelled at their first kernel
#   near   the 24 named cases to the end of a search of 10 s: the first kernel, within 2 % of the best, GPU idle
#   size   eight of these at another size, by the same service: after near
#   few    six of them with two cores for the service and its worker, searches of 25 s
#   cold   `search tune` of three fusions, two of them five times: the command line, and whether five runs agree
#   watch  `search watch` over what cold has kept
# DEVICE=fake shows that a run works.
: "${OUT:?name the folder for results}"
python=${PYTHON:-python3}
export PYTHONPATH=.:sdk PYTHONUNBUFFERED=1
device=${DEVICE:-auto}
work=$(mktemp -d)
mkdir -p "$OUT"
began=$(date +%s)
says() { echo "== $1 after $(($(date +%s) - began)) s"; }

near='bias_gelu_bf16_8192x12288 silu_mul_bf16_8192x14336 add_bf16_12289x4099 bcast_add4d_f32_discontig
 scale_bias_relu_bf16_128x256x56x56 rope_bf16_4x32x4096x128 transpose_bf16_12288x4096 transpose_f32_4099x8191
 nchw_to_nhwc_bf16_64x256x56x56 transpose_bias_relu_bf16_8192x4096 row_sum_bf16_16384x8192 logsumexp_bf16_8192x32000
 col_sum_bf16_8192x8192 softmax_bf16_4096x1024 softmax_f32_4096x4096 softmax_bf16_4096x131072
 layernorm_bf16_16384x4096 rmsnorm_residual_bf16_8192x8192 layernorm_bf16_8192x4095 sum_bf16_dims02_64x512x2048
 permute_bf16_210_333x251x411 transpose_i8_4095x16001 cat_bf16_16384x2000_1001 causal_softmax_bf16_32x2048x2048'
size='bias_gelu_bf16_8192x12288 rope_bf16_4x32x4096x128 transpose_bf16_12288x4096 row_sum_bf16_16384x8192
 softmax_f32_4096x4096 layernorm_bf16_16384x4096 layernorm_bf16_8192x4095 col_sum_bf16_8192x8192'
few='bias_gelu_bf16_8192x12288 transpose_bf16_12288x4096 row_sum_bf16_16384x8192 softmax_f32_4096x4096
 layernorm_bf16_8192x4095 add_bf16_12289x4099'
near=${NEAR:-$near} size=${SIZE:-$size} few=${FEW:-$few}

serves() { # names a folder of data and a command before the service's; sets $url and $served
  folder=$1
  shift
  setsid "$@" "$python" -m service serve --port 0 --data-dir "$folder" --worker --device "$device" >"$folder.log" 2>&1 &
  served=$!
  for _ in $(seq 240); do
    grep -q 'serves queues' "$folder.log" && break
    sleep 0.25
  done
  url=$(sed -n 's/^fusetune serves \([^ ]*\).*/\1/p' "$folder.log")
}
ends() {
  kill -TERM "$served" 2>/dev/null
  wait "$served"
}
first() { "$python" -m benchmarks.search.first --url "$url" "$@"; }

warm=
for part in ${PARTS:-first near size few cold watch}; do
  case $part in
  first | near | size)
    if [ -z "$warm" ]; then
      serves "$work/warm" env
      warm=$served
      says "service up at $url"
    fi
    ;;
  *)
    if [ -n "$warm" ]; then
      served=$warm
      ends
      warm=
    fi
    ;;
  esac
  case $part in
  first) first --limit-s "${FIRST_S:-200}" ${FIRST:+--cases $FIRST} --json "$OUT/first.json" ;;
  near) first --cases $near --to-the-end --budget-s "${NEAR_BUDGET_S:-10}" --limit-s "${NEAR_S:-290}" --json "$OUT/near.json" ;;
  size)
    first --cases $size --other-size --to-the-end --budget-s "${SIZE_BUDGET_S:-7}" --limit-s "${SIZE_S:-70}" --json "$OUT/size.json"
    ;;
  few)
    serves "$work/few" taskset -c "${FEW_CORES:-0,1}"
    first --cases $few --to-the-end --budget-s "${FEW_BUDGET_S:-25}" --limit-s "${FEW_S:-160}" --json "$OUT/few.json"
    ends
    ;;
  cold)
    for run in ${COLD:-softmax_f32_4096x4096:0 softmax_f32_4096x4096:1 softmax_f32_4096x4096:2 softmax_f32_4096x4096:3 softmax_f32_4096x4096:4 transpose_bf16_12288x4096:0 transpose_bf16_12288x4096:1 transpose_bf16_12288x4096:2 transpose_bf16_12288x4096:3 transpose_bf16_12288x4096:4 bias_gelu_bf16_8192x12288:0}; do
      case=${run%:*} seed=${run#*:}
      "$python" -m search tune "benchmarks/suite/fusions/$case.json" --budget-s "${COLD_BUDGET_S:-10}" --seed "$seed" \
        --out "$work/cold/$case-$seed" >"$work/cold-$case-$seed.log" 2>&1 || cat "$work/cold-$case-$seed.log"
    done
    "$python" -m benchmarks.search.goals --cold "$work"/cold/* --json "$OUT/cold.json"
    ;;
  watch) "$python" -m search watch "$work/cold" --share 100 --budget-s 20 | tee "$OUT/watch.txt" ;;
  esac
  says "$part"
done
if [ -n "$warm" ]; then
  served=$warm
  ends
fi
tail -n 20 "$work"/*.log >"$OUT/service.log" 2>/dev/null
rm -rf "$work"
