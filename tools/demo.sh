#!/usr/bin/env bash
# The main job on real photographs, with the engine that needs no weights: what `make demo` runs.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-demo-output}

.venv/bin/samjobs process --input examples/photos --boxes examples/photos/boxes.csv \
  --engine opencv --format overlay --format label-png --output "$out" --db "$out/queue.db"
echo
echo "Look at:"
find "$out/overlay" -name '*.jpg' | sort | sed 's/^/  /'
echo "  $out/results.jsonl            a record per photo: masks as lossless COCO RLE, boxes, scores"
echo "  $out/annotations.coco.json    the same for COCO's tools"
echo
echo "Run 'make demo' again: nothing is done twice. This was OpenCV's GrabCut, without a model; README.md has SAM 3."
