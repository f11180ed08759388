// Ranks by MPI, in the
// only file that uses
// MPI's blocking calls spin; an idle rank would take a processor from a training one. So every call is non-blocking and
// then polled, with growing pauses up to a millisecond.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "simulations/launchers/ranks.h"

namespace rivulet {
namespace {

// MPI counts in int, and a sum needs a second buffer of the piece that is summed.
constexpr size_t kMostBytes = size_t{64} << 20;
// A model of 60 billion parameters: a rank that announces more, or sends less than announced, runs another program.
constexpr uint64_t kMostMessageBytes = uint64_t{1} << 38;

// Ends every rank: the next call would wait forever.
[[noreturn]] void EndAllRanks(int from) {
  std::fprintf(stderr, "rivulet: rank %d answers otherwise than this program does; start one program on all ranks\n",
               from);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

void WaitFor(MPI_Request request, MPI_Status* status = MPI_STATUS_IGNORE) {
  constexpr std::chrono::microseconds kLongest{1000};
  std::chrono::microseconds pause{0};
  for (int asked = 0;; ++asked) {
    int done = 0;
    MPI_Test(&request, &done, status);
    if (done != 0) return;
    if (asked < 200) continue;
    pause = std::min(std::max(2 * pause, std::chrono::microseconds(20)), kLongest);
    std::this_thread::sleep_for(pause);
  }
}

class MpiRanks final : public Ranks {
 public:
  MpiRanks() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm here;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &here);
    MPI_Comm_size(here, &local_);
    MPI_Comm_rank(here, &local_rank_);
    MPI_Comm_free(&here);
  }
  ~MpiRanks() override { MPI_Finalize(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local() const override { return local_; }
  int local_rank() const override { return local_rank_; }

  void Broadcast(std::string& bytes) override {
    uint64_t size = bytes.size();
    BroadcastPiece(&size, sizeof(size));
    if (size > kMostMessageBytes) EndAllRanks(0);
    bytes.resize(size);
    for (size_t at = 0; at < bytes.size(); at += kMostBytes) {
      BroadcastPiece(bytes.data() + at, std::min(kMostBytes, bytes.size() - at));
    }
  }

  std::string Scatter(const std::vector<std::string>& parts) override {
    if (rank_ > 0) return Receive(0);
    for (int to = 1; to < size_; ++to) Send(parts[static_cast<size_t>(to)], to);
    return parts[0];
  }

  std::vector<std::string> Gather(const std::string& bytes) override {
    if (rank_ > 0) {
      Send(bytes, 0);
      return {};
    }
    std::vector<std::string> all = {bytes};
    for (int from = 1; from < size_; ++from) all.push_back(Receive(from));
    return all;
  }

  void Sum(std::span<int64_t> sums) override { SumAs(sums, MPI_UINT64_T); }
  void Sum(std::span<int32_t> sums) override { SumAs(sums, MPI_UINT32_T); }

 private:
  static void BroadcastPiece(void* data, size_t bytes) {
    MPI_Request request;
    MPI_Ibcast(data, static_cast<int>(bytes), MPI_BYTE, 0, MPI_COMM_WORLD, &request);
    WaitFor(request);
  }
  static void Send(const std::string& bytes, int to) {
    const uint64_t size = bytes.size();
    MPI_Request request;
    MPI_Isend(&size, sizeof(size), MPI_BYTE, to, 0, MPI_COMM_WORLD, &request);
    WaitFor(request);
    for (size_t at = 0; at < bytes.size(); at += kMostBytes) {
      MPI_Isend(bytes.data() + at, static_cast<int>(std::min(kMostBytes, bytes.size() - at)), MPI_BYTE, to, 0,
                MPI_COMM_WORLD, &request);
      WaitFor(request);
    }
  }
  static std::string Receive(int from) {
    uint64_t size = 0;
    ReceivePiece(&size, sizeof(size), from);
    if (size > kMostMessageBytes) EndAllRanks(from);
    std::string bytes(size, '\0');
    for (size_t at = 0; at < bytes.size(); at += kMostBytes) {
      ReceivePiece(bytes.data() + at, std::min(kMostBytes, bytes.size() - at), from);
    }
    return bytes;
  }
  // MPI itself ends all ranks if more bytes arrive than requested.
  static void ReceivePiece(void* data, size_t bytes, int from) {
    MPI_Request request;
    MPI_Status status;
    MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, from, 0, MPI_COMM_WORLD, &request);
    WaitFor(request, &status);
    int came = 0;
    MPI_Get_count(&status, MPI_BYTE, &came);
    if (came != static_cast<int>(bytes)) EndAllRanks(from);
  }

  // Each rank adds an even share of each piece, and rank 0 collects the shares: the links carry every number twice, and
  // no rank adds more than another. Unsigned, so that overflow is defined.
  template <typename T>
  void SumAs(std::span<T> sums, MPI_Datatype type) {
    const auto ranks = static_cast<size_t>(size_);
    std::vector<int> counts(ranks), offsets(ranks);
    std::vector<T> share;
    const size_t most = kMostBytes / sizeof(T);
    for (size_t at = 0; at < sums.size(); at += most) {
      const size_t piece = std::min(most, sums.size() - at);
      for (size_t r = 0; r < ranks; ++r) {
        offsets[r] = static_cast<int>(piece * r / ranks);
        counts[r] = static_cast<int>(piece * (r + 1) / ranks) - offsets[r];
      }
      const int own = counts[static_cast<size_t>(rank_)];
      share.resize(static_cast<size_t>(own));
      MPI_Request request;
      MPI_Ireduce_scatter(sums.data() + at, share.data(), counts.data(), type, MPI_SUM, MPI_COMM_WORLD, &request);
      WaitFor(request);
      MPI_Igatherv(share.data(), own, type, sums.data() + at, counts.data(), offsets.data(), type, 0, MPI_COMM_WORLD,
                   &request);
      WaitFor(request);
    }
  }

  int rank_ = 0, size_ = 1, local_ = 1, local_rank_ = 0;
};

}  // namespace
}  // namespace rivulet

extern "C" rivulet::Ranks* RivuletOpenRanks2(char* error, int error_bytes) {
  int begun = 0, threads = MPI_THREAD_SINGLE;
  MPI_Initialized(&begun);
  if (begun != 0) {
    std::snprintf(error, static_cast<size_t>(error_bytes), "MPI has begun already");
    return nullptr;
  }
  // Calls come from one thread at a time, not from the starting one.
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &threads);
  if (threads >= MPI_THREAD_SERIALIZED) return new rivulet::MpiRanks;
  MPI_Finalize();
  std::snprintf(error, static_cast<size_t>(error_bytes), "its MPI cannot be called from more than one thread");
  return nullptr;
}
