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

// Returns the reason why a device would refuse the shape; empty if it would not.
std::string WrongShape(const LaunchShape& shape);

// Calls `body` for each thread of each block, with threadIdx and blockIdx set. The threads of a block run one after the
// other up to the next __syncthreads() or the end, alternately in ascending and descending order, so that a kernel with
// a missing barrier gives a wrong result. Returns an error, or "".
std::string RunBlocks(const LaunchShape& shape, const std::function<void()>& body);

}  // namespace rivulet::gpu::emulated
