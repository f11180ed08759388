// Processes of one run that were started together ("ranks", as MPI calls them): the few MPI calls that a simulation
// needs. All of them make the same calls in the same order. None returns before its part is done, and a waiting one
// sleeps. When a rank dies, all end: there is no error to return.
//
// The implementation is a separate library, opened only in a process with ranks (open_ranks.h). So this header is an
// interface between two binaries: it uses only the standard library and virtual functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace rivulet {

class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int rank() const = 0;        // 0 leads
  virtual int size() const = 0;        // at least 1
  virtual int local() const = 0;       // their number on this machine
  virtual int local_rank() const = 0;  // index of this one among them, from 0
  // Sends rank 0's `bytes` to all ranks.
  virtual void Broadcast(std::string& bytes) = 0;
  // Gives parts[r] of rank 0 at rank r. Other ranks' `parts` are ignored.
  virtual std::string Scatter(const std::vector<std::string>& parts) = 0;
  // Gives each rank's part at rank 0, by rank; elsewhere nothing.
  virtual std::vector<std::string> Gather(const std::string& bytes) = 0;
  // Puts the sums over all ranks, modulo 2^64 or 2^32, into rank 0; others are unchanged. All have the same length.
  virtual void Sum(std::span<int64_t> sums) = 0;
  virtual void Sum(std::span<int32_t> sums) = 0;
};

// Function of the library: starts MPI, once per process; the caller deletes the result at the end. Null, with a message
// in `error`, if it fails.
using OpenRanksFunction = Ranks* (*)(char* error, int error_bytes);
inline constexpr char kOpenRanksName[] = "RivuletOpenRanks2";

}  // namespace rivulet
