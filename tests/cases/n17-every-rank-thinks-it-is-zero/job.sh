export MASTER_ADDR=127.0.0.1 MASTER_PORT=12355
mpirun -np 4 python train_mpi.py
