#!/bin/sh
# test_models_torch.sh BUILD - loss, gradients and buffers of the models, of a state dict that loads
# by its names, beside PyTorch's of the same network. COMPARE_PYTHON is one that has torch.
. tests/test.sh
build=$1
python=${COMPARE_PYTHON:-python3}
if ! "$python" -c 'import numpy, torch' 2>/dev/null; then
    for name in $(sed -n 's/^MODEL(\(.*\))$/\1/p' models/models.h); do
        skip "${name}_computes_what_pytorch_does" "no torch in $python"
    done
    test_end
    exit
fi
check saves_the_cases "$build/tests/test_models" --save "$scratch"
for file in "$scratch"/*.safetensors; do
    name=$(basename "$file" .safetensors)
    check "${name}_computes_what_pytorch_does" "$python" tools/compare/models.py "$scratch" "$name"
done
test_end
