// A rank of MPI that is another program: garbage_rank short|huge. It takes part as `rivulet simulate` does until it is
// asked for its first answer, and announces more bytes than it sends, or more than there can be.
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

int main(int argc, char** argv) {
  int threads = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &threads);
  MPI_Comm here;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 1, MPI_INFO_NULL, &here);
  MPI_Comm_free(&here);
  const auto receive = [](void* data, size_t bytes) {
    MPI_Request request;
    MPI_Ibcast(data, static_cast<int>(bytes), MPI_BYTE, 0, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  };
  uint64_t size = 0;
  receive(&size, sizeof(size));
  std::string invitation(size, '\0');
  constexpr size_t kMostBytes = size_t{64} << 20;
  for (size_t at = 0; at < size; at += kMostBytes)
    receive(invitation.data() + at, std::min<size_t>(kMostBytes, size - at));
  const bool huge = argc > 1 && std::string_view(argv[1]) == "huge";
  const uint64_t announced = huge ? uint64_t{1} << 60 : 1000;
  MPI_Send(&announced, sizeof(announced), MPI_BYTE, 0, 0, MPI_COMM_WORLD);
  if (!huge) MPI_Send(invitation.data(), 10, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
  MPI_Finalize();
}
