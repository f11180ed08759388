#include "engine/profile/profile.h"

#include <algorithm>

namespace rivulet {
namespace {

constexpr double kShownLoss = 0.001;  // of the steps' time

std::string Duration(double seconds) {
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.1f} us", seconds * 1e6);
}

std::string Rate(double per_second, std::string_view unit) {
  return per_second >= 1e9 ? fmt::format("{:.1f} G{}", per_second / 1e9, unit)
                           : fmt::format("{:.1f} M{}", per_second / 1e6, unit);
}

// Why an instruction takes longer than it must.
std::string Reason(const InstructionProfile& row, const Roofline& roofline, Bound bound, double share) {
  const double seconds = row.seconds / static_cast<double>(std::max<int64_t>(row.calls, 1));
  switch (bound) {
    case Bound::kOverhead:
      return fmt::format("bound by overhead: {} calls of {} each are mostly the calling", row.calls, Duration(seconds));
    case Bound::kCompute:
      return fmt::format("bound by compute: {} where the core can do {} ({:.0f} %)",
                         Rate(row.flops / seconds, "FLOP/s"), Rate(roofline.flops_per_second, "FLOP/s"), 100 * share);
    case Bound::kMemory:
      break;
  }
  return fmt::format("bound by memory: {} where {:.1f} KiB can move at {} ({:.1f} %)", Rate(row.bytes / seconds, "B/s"),
                     row.bytes / 1024, Rate(roofline.BytesPerSecond(row.bytes), "B/s"), 100 * share);
}

}  // namespace

double Profile::kernel_seconds() const {
  double seconds = 0;
  for (const InstructionProfile& row : instructions) seconds += row.seconds;
  return seconds;
}

// Rows are found by program and index, not by name: this runs for each span of each recorded step, and two programs of
// one graph, of another batch size for instance, are told apart.
int ProfileBuilder::RowOf(const InstructionSpan& span, std::span<const InstructionSpan> spans) {
  Known& known = known_[span.program];
  if (known.program == nullptr) {
    known.program = span.program->shared_from_this();
    known.rows.assign(span.program->instructions().size(), -1);
    known.costs = CostsOf(*span.program);
    profile_.arena_bytes = std::max(profile_.arena_bytes, static_cast<int64_t>(span.program->memory().arena_bytes));
  }
  const size_t index = static_cast<size_t>(span.instruction);
  if (known.rows[index] >= 0) return known.rows[index];
  // Nodes of an inner program are told by the node that runs it, and belong to its layer.
  std::string prefix, layer_prefix;
  if (span.parent >= 0) {
    const InstructionProfile& parent =
        profile_.instructions[static_cast<size_t>(RowOf(spans[static_cast<size_t>(span.parent)], spans))];
    prefix = parent.node + "/";
    layer_prefix = parent.layer;
  }
  known.rows[index] = static_cast<int>(profile_.instructions.size());
  const Instruction& instruction = span.program->instructions()[index];
  const InstructionCost& cost = known.costs[index];
  InstructionProfile& row = profile_.instructions.emplace_back();
  row.node = prefix + instruction.node;
  row.op = instruction.op;
  row.layer = layer_prefix.empty() ? cost.layer : layer_prefix;
  row.implementation = instruction.implementation;
  row.kernel = cost.kernel;
  row.shapes = cost.shapes;
  row.source_line = instruction.source_line;
  row.flops = cost.flops;
  row.bytes = cost.bytes;
  row.live_bytes = cost.live_bytes;
  return known.rows[index];
}

void ProfileBuilder::AddRun(std::span<const InstructionSpan> spans, int64_t begin, int64_t end, int64_t dropped) {
  profile_.run_seconds += static_cast<double>(end - begin);
  profile_.dropped += dropped;
  for (const InstructionSpan& span : spans) {
    if (span.end == 0) continue;
    InstructionProfile& row = profile_.instructions[static_cast<size_t>(RowOf(span, spans))];
    ++row.calls;
    row.seconds += static_cast<double>(span.end - span.begin - span.inside);
  }
}

void ProfileBuilder::AddStep(double seconds) {
  ++profile_.steps;
  profile_.step_seconds += seconds;
}

Profile ProfileBuilder::Build() const {
  Profile profile = profile_;
  profile.run_seconds *= 1e-9;
  for (InstructionProfile& row : profile.instructions) row.seconds *= 1e-9;
  // A node that failed each time, or that runs what was called but never ended, has nothing to say.
  std::erase_if(profile.instructions, [](const InstructionProfile& row) { return row.calls == 0; });
  return profile;
}

std::vector<ProfileGroup> GroupBy(const Profile& profile, std::string InstructionProfile::*key) {
  std::map<std::string_view, ProfileGroup> by_name;
  for (const InstructionProfile& row : profile.instructions) {
    ProfileGroup& group = by_name[row.*key];
    const auto calls = static_cast<double>(row.calls);
    group.name = row.*key;
    group.calls += row.calls;
    group.seconds += row.seconds;
    group.flops += row.flops * calls;
    group.bytes += row.bytes * calls;
    group.live_bytes = std::max(group.live_bytes, row.live_bytes);
    group.roofline_seconds += profile.roofline.Seconds(row.flops, row.bytes) * calls;
  }
  std::vector<ProfileGroup> groups;
  for (auto& [name, group] : by_name) groups.push_back(std::move(group));
  std::stable_sort(groups.begin(), groups.end(),
                   [](const ProfileGroup& a, const ProfileGroup& b) { return a.seconds > b.seconds; });
  return groups;
}

// Sorted by the time lost and not by the time taken: a product at the machine's peak takes longest and has nothing to
// give, whereas a small op that is called often may.
std::vector<ProfileLoss> LargestLosses(const Profile& profile, size_t count) {
  std::vector<ProfileLoss> losses;
  const auto steps = static_cast<double>(std::max<int64_t>(profile.steps, 1));
  for (const InstructionProfile& row : profile.instructions) {
    if (row.calls == 0) continue;
    ProfileLoss loss;
    loss.instruction = &row;
    const auto calls = static_cast<double>(row.calls);
    loss.roofline_seconds = profile.roofline.Seconds(row.flops, row.bytes) * calls;
    loss.lost_seconds = row.seconds - loss.roofline_seconds;
    if (loss.lost_seconds <= 0 || loss.lost_seconds < kShownLoss * profile.run_seconds) continue;
    loss.bound = profile.roofline.BoundOf(row.flops, row.bytes, row.seconds / calls);
    losses.push_back(std::move(loss));
  }
  std::stable_sort(losses.begin(), losses.end(),
                   [](const ProfileLoss& a, const ProfileLoss& b) { return a.lost_seconds > b.lost_seconds; });
  if (losses.size() > count) losses.resize(count);
  for (ProfileLoss& loss : losses) {
    const InstructionProfile& row = *loss.instruction;
    loss.sentence =
        fmt::format("{} (op {}, layer {}, kernel {} [{}]{}): {} of a step's {}, {} more than this machine needs; {}",
                    row.node, row.op, row.layer, ShortKernelName(row.kernel), row.implementation,
                    row.source_line.empty() ? "" : ", built at " + row.source_line, Duration(row.seconds / steps),
                    Duration(profile.run_seconds / steps), Duration(loss.lost_seconds / steps),
                    Reason(row, profile.roofline, loss.bound, loss.roofline_seconds / row.seconds));
  }
  return losses;
}

std::string ShortKernelName(std::string_view kernel) {
  // "a::(anonymous namespace)::Name<b::C>": brackets hide what is inside of them.
  size_t begin = 0, end = kernel.size();
  int depth = 0;
  for (size_t i = 0; i < kernel.size(); ++i) {
    const char c = kernel[i];
    if (c == '<' && depth == 0) {
      end = i;
      break;
    }
    if (c == '(' || c == '{') ++depth;
    if (c == ')' || c == '}') --depth;
    if (c == ':' && depth == 0) begin = i + 1;
  }
  return std::string(kernel.substr(begin, end - begin));
}

}  // namespace rivulet
