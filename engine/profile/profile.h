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
  std::string source_line;  // in the code that built the node, or ""
  int64_t calls = 0;
  double seconds = 0;  // total of all calls, without time in inner programs
  double flops = 0;    // per call
  double bytes = 0;    // per call
  int64_t live_bytes = 0;
};

struct Profile {
  std::string title;
  int64_t steps = 0;
  int threads = 1;          // 0: a device that works beside the host
  double step_seconds = 0;  // total wall-clock time of all steps, including input
  double run_seconds = 0;   // the part of step_seconds that ran programs
  int64_t arena_bytes = 0;  // arena size of the largest program
  int64_t dropped = 0;      // number of calls that were not recorded
  Roofline roofline;
  std::vector<InstructionProfile> instructions;  // in order of their first call

  double kernel_seconds() const;  // total of all instructions
};

// Collects a profile. Not thread-safe. Keeps the programs it has seen alive.
class ProfileBuilder {
 public:
  // Adds one recorded run of a program; `begin` and `end` are those of the whole run.
  void AddRun(std::span<const InstructionSpan> spans, int64_t begin, int64_t end, int64_t dropped = 0);
  // Adds a finished step with its duration, including work outside of its runs.
  void AddStep(double seconds);
  int64_t steps() const { return profile_.steps; }
  // Returns the profile without title, threads and roofline.
  Profile Build() const;

 private:
  struct Known {
    std::shared_ptr<const Program> program;
    std::vector<int> rows;  // indices in profile_.instructions; -1: not called so far
    std::vector<InstructionCost> costs;
  };
  int RowOf(const InstructionSpan& span, std::span<const InstructionSpan> spans);

  Profile profile_;  // seconds are nanoseconds until Build
  std::map<const Program*, Known> known_;
};

// A group of instructions with a common property, summed over all steps.
struct ProfileGroup {
  std::string name;
  int64_t calls = 0;
  double seconds = 0;
  double flops = 0, bytes = 0;  // total of all calls
  int64_t live_bytes = 0;       // maximum
  double roofline_seconds = 0;  // minimum time of this work on this machine
};
// Groups instructions by `key`. Ordered by time, longest first; equal times by name.
std::vector<ProfileGroup> GroupBy(const Profile& profile, std::string InstructionProfile::*key);

// An instruction's lost time: its time above the roofline's minimum.
struct ProfileLoss {
  const InstructionProfile* instruction = nullptr;  // in the profile
  double lost_seconds = 0;                          // total of all calls
  double roofline_seconds = 0;                      // total of all calls
  Bound bound = Bound::kMemory;
  // "conv2/Relu (op _FusedConv2D, layer conv2, kernel …, built at conv.cc:12): 1.2 ms of a step's 5.0 ms …"
  std::string sentence;
};
// Returns the largest losses first: at most `count`, and none below a thousandth of the steps' time.
std::vector<ProfileLoss> LargestLosses(const Profile& profile, size_t count = 3);

// Returns the last part of a kernel's C++ class name without template arguments: "SmallMatMul".
std::string ShortKernelName(std::string_view kernel);

// Convert to a JSON object and back. INVALID_ARGUMENT names a missing part, or one of the wrong kind.
Json ProfileJson(const Profile& profile);
std::string ProfileToJson(const Profile& profile);
StatusOr<Profile> ProfileFromJson(std::string_view json);

}  // namespace rivulet
