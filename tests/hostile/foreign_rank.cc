// Rank 0 of another program: it sends one order (the number argv[1], or none without an argument) and then waits for
// the answer forever. ranks_test.py starts it beside `rivulet simulate`.
#include <mpi.h>

#include <cstdint>
#include <cstdlib>

namespace {

void Broadcast(void* data, int bytes) {
  MPI_Request request;
  MPI_Ibcast(data, bytes, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm here;  // as simulations/launchers/mpi/mpi_ranks.cc begins
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
  int64_t order = argc > 1 ? std::atoll(argv[1]) : 0;
  uint64_t size = argc > 1 ? sizeof(order) : 0;
  Broadcast(&size, sizeof(size));
  if (size > 0) Broadcast(&order, sizeof(order));
  char answer = 0;
  MPI_Recv(&answer, 1, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Finalize();
}
