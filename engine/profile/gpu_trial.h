// A program with its own device memory, for measurements: every lane receives the same values.
//
//   RIVULET_ASSIGN_OR_RETURN(const auto run, GpuTrial::Create(program, device, buffers, 8));
//   RIVULET_RETURN_IF_ERROR(run->Feed(feeds));
//   RIVULET_RETURN_IF_ERROR(run->Put(stream));  // any number of times; then stream.Wait()
//   RIVULET_RETURN_IF_ERROR(run->Fetch(lane, fetches));
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/status.h"
#include "engine/program/gpu_program.h"

namespace rivulet {

// A program on a device for measurements. Not thread-safe.
class GpuTrial {
 public:
  // `buffers`: initial values of the program's buffers. RESOURCE_EXHAUSTED: so many lanes do not fit into memory.
  static StatusOr<std::unique_ptr<GpuTrial>> Create(std::shared_ptr<const GpuProgram> program,
                                                    std::shared_ptr<GpuDevice> device,
                                                    std::span<const std::span<const std::byte>> buffers, int lanes);
  const GpuProgram& program() const { return *program_; }
  int lanes() const { return lanes_; }
  // Copies the feeds, in order of Signature::feeds and with the compiled shapes, to the device, and waits.
  Status Feed(std::span<const TensorView> feeds);
  // Puts one run of all lanes into the stream; `first_label` is that of GpuBindings.
  Status Put(GpuStream& stream, uint64_t first_label = 0);
  // Copy one lane's data to the caller's memory: the last run's fetches, or the contents of its buffers. Call
  // stream.Wait() before; both functions wait for their copies.
  Status Fetch(int lane, std::span<const TensorView> fetches);
  Status FetchBuffer(int lane, size_t buffer, std::span<std::byte> to);

 private:
  GpuTrial() = default;
  StatusOr<GpuOperand> NewOperand(size_t bytes, std::string_view what);
  Status FillLanes(const GpuOperand& operand, const std::byte* from, size_t bytes);

  std::shared_ptr<GpuDevice> device_;
  std::shared_ptr<const GpuProgram> program_;
  std::unique_ptr<GpuInstance> instance_;
  std::unique_ptr<GpuStream> stream_;
  int lanes_ = 1;
  std::vector<GpuMemory> memory_;
  std::vector<GpuOperand> buffers_, feeds_, fetches_;
  GpuOperand arena_;
  GpuDraws draws_;
};

}  // namespace rivulet
