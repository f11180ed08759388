// Profile of steps: summed cost per instruction, and per op, layer and implementation, compared with the machine's
// roofline.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/profile/instruction_costs.h"
#include "engine/profile/roofline.h"
#include "engine/profile/run_recorder.h"

namespace rivulet {

class Json;

struct InstructionProfile {
  std::string node, op, layer, implementation, kernel, shapes;
  std::string source_line;  // of the code that built the node, or ""
  int64_t calls = 0;
  double seconds = 0;  // of all calls together, without what inner programs took
  double flops = 0;    // of one call
  double bytes = 0;    // of one call
  int64_t live_bytes = 0;
};

struct Profile {
  std::string title;
  int64_t steps = 0;
  int threads = 1;          // 0: on a device beside the host
  double step_seconds = 0;  // wall-clock time of all steps together, input included
  double run_seconds = 0;   // of that: running programs
  int64_t arena_bytes = 0;  // of the largest program
  int64_t dropped = 0;      // calls that were not recorded
  Roofline roofline;
  std::vector<InstructionProfile> instructions;  // in order of their first call

  double kernel_seconds() const;  // of all instructions together
};

// Not thread-safe. Keeps the programs it has seen alive.
class ProfileBuilder {
 public:
  // One run of a program, as recorded: `begin` and `end` of the whole run.
  void AddRun(std::span<const InstructionSpan> spans, int64_t begin, int64_t end, int64_t dropped = 0);
  // A step is over; it took so long, with all that stands around its runs.
  void AddStep(double seconds);
  int64_t steps() const { return profile_.steps; }
  // Without title, threads and roofline.
  Profile Build() const;

 private:
  struct Known {
    std::shared_ptr<const Program> program;
    std::vector<int> rows;  // in profile_.instructions; -1: not called so far
    std::vector<InstructionCost> costs;
  };
  int RowOf(const InstructionSpan& span, std::span<const InstructionSpan> spans);

  Profile profile_;  // seconds are nanoseconds until Build
  std::map<const Program*, Known> known_;
};

// Instructions that have something in common, over all steps.
struct ProfileGroup {
  std::string name;
  int64_t calls = 0;
  double seconds = 0;
  double flops = 0, bytes = 0;  // of all calls
  int64_t live_bytes = 0;       // the most
  double roofline_seconds = 0;  // the least that this work can take on this machine
};
// By time, longest first; equal times by name.
std::vector<ProfileGroup> GroupBy(const Profile& profile, std::string InstructionProfile::*key);

// Where time is lost: an instruction's time above its roofline's.
struct ProfileLoss {
  const InstructionProfile* instruction = nullptr;  // in the profile
  double lost_seconds = 0;                          // of all calls
  double roofline_seconds = 0;                      // of all calls
  Bound bound = Bound::kMemory;
  // "conv2/Relu (op _FusedConv2D, layer conv2, kernel …, built at conv.cc:12): 1.2 ms of a step's 5.0 ms …"
  std::string sentence;
};
// The largest first; at most `count`, none below a thousandth of the steps' time.
std::vector<ProfileLoss> LargestLosses(const Profile& profile, size_t count = 3);

// The last part of a kernel's C++ name without its templates' arguments: "SmallMatMul".
std::string ShortKernelName(std::string_view kernel);

// One JSON object, and back. INVALID_ARGUMENT: not such an object (what is missing or of the wrong kind).
Json ProfileJson(const Profile& profile);
std::string ProfileToJson(const Profile& profile);
StatusOr<Profile> ProfileFromJson(std::string_view json);

}  // namespace rivulet
