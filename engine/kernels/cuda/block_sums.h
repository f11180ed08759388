// Reduction of the results of a block's threads, as a tree whose shape depends on the number of threads alone.
#pragma once

#include "engine/kernels/cuda/device_code.h"

namespace rivulet::gpu {

constexpr int kBlockThreads = 256;

// A block's threads as teams of `parts`, a power of two; each team computes one result.
struct Team {
  int member;  // index of the thread's team among the block's kBlockThreads / parts teams
  int part;    // the thread's index in its team
  int parts;
  __device__ int slot() const { return part * (kBlockThreads / parts) + member; }
};

// Neighbouring threads are in one team if its elements are adjacent in memory, and in neighbouring teams if results are
// adjacent.
__device__ inline Team TeamOf(int parts, bool results_are_neighbours) {
  const int thread = static_cast<int>(threadIdx.x), members = kBlockThreads / parts;
  if (results_are_neighbours) return {thread % members, thread / members, parts};
  return {thread / parts, thread % parts, parts};
}

// Joins the values of each team, and returns the result to all its threads. `shared`: kBlockThreads elements of shared
// memory. Every thread of the block must call it.
template <typename T, typename Join>
__device__ T JoinTeam(const Team& team, T value, T* shared, Join join) {
  const int slot = team.slot(), members = kBlockThreads / team.parts;
  shared[slot] = value;
  __syncthreads();
  for (int width = team.parts / 2; width > 0; width /= 2) {
    if (team.part < width) shared[slot] = join(shared[slot], shared[slot + width * members]);
    __syncthreads();
  }
  const T joined = shared[team.member];
  __syncthreads();  // shared memory may be reused
  return joined;
}

struct Plus {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

template <typename T>
__device__ T SumOfTeam(const Team& team, T value, T* shared) {
  return JoinTeam(team, value, shared, Plus());
}

}  // namespace rivulet::gpu
