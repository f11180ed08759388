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
  virtual int local() const = 0;       // how many of them are on this machine
  virtual int local_rank() const = 0;  // which of those this one is, from 0
  // Rank 0's `bytes`, everywhere.
  virtual void Broadcast(std::string& bytes) = 0;
  // parts[r] of rank 0, at rank r. Elsewhere `parts` is not looked at.
  virtual std::string Scatter(const std::vector<std::string>& parts) = 0;
  // Each rank's part, at rank 0, by rank; elsewhere nothing.
  virtual std::vector<std::string> Gather(const std::string& bytes) = 0;
  // The sums over all ranks, modulo 2^64 or 2^32, at rank 0; elsewhere what was there before. Equally long everywhere.
  virtual void Sum(std::span<int64_t> sums) = 0;
  virtual void Sum(std::span<int32_t> sums) = 0;
};

// Of the library: begins, once a process, and gives what the caller deletes at the end. Null, and a sentence at
// `error`, where that cannot be.
using OpenRanksFunction = Ranks* (*)(char* error, int error_bytes);
inline constexpr char kOpenRanksName[] = "RivuletOpenRanks2";

}  // namespace rivulet
