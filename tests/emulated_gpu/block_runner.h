// Runs the blocks of a launch on the host's thread, one after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace rivulet::gpu::emulated {

struct LaunchShape {
  uint32_t blocks_x = 1, blocks_y = 1, blocks_z = 1;
  uint32_t threads = 1;
};

// What a device would refuse, in words; empty: nothing.
std::string WrongShape(const LaunchShape& shape);

// Calls `body` for each thread of each block, with threadIdx and blockIdx set. The threads of a block run in turn, each
// to its end or to the next __syncthreads(), upwards and downwards by turns, so that a kernel that lacks one gives
// something else than it should. Returns what went wrong, or nothing.
std::string RunBlocks(const LaunchShape& shape, const std::function<void()>& body);

}  // namespace rivulet::gpu::emulated
