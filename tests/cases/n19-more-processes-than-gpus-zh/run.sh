export CUDA_VISIBLE_DEVICES=4,5,6,7
NPROC_PER_NODE=8 llamafactory-cli train examples/train_full/qwen_full.yaml
