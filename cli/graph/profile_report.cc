#include "cli/graph/profile_report.h"

#include "engine/base/json.h"
#include "engine/base/table.h"

namespace rivulet {
namespace {

// Totals of a group or an instruction in one step.
struct Row {
  double calls, seconds, flops, bytes, roofline_seconds;
  int64_t live_bytes;
};

Row PerStep(const ProfileGroup& group, const Profile& profile) {
  const auto steps = static_cast<double>(std::max<int64_t>(profile.steps, 1));
  return {static_cast<double>(group.calls) / steps, group.seconds / steps, group.flops / steps, group.bytes / steps,
          group.roofline_seconds / steps,           group.live_bytes};
}

std::vector<Column> Columns(std::vector<Column> first) {
  for (const Column& column : std::vector<Column>{{"calls", false, 1},
                                                  {"ms", false, 3},
                                                  {"percent", false, 1},
                                                  {"mflop", false, 2},
                                                  {"gflop_per_s", false, 1},
                                                  {"mb", false, 3},
                                                  {"gb_per_s", false, 1},
                                                  {"peak_kib", false, 1},
                                                  {"roofline_percent", false, 1}})
    first.push_back(column);
  return first;
}

void AddRow(Table& table, std::vector<Cell> first, const Row& row, double all_seconds) {
  const double seconds = std::max(row.seconds, 1e-12);
  first.insert(
      first.end(),
      {Cell(row.calls), Cell(row.seconds * 1e3), Cell(all_seconds > 0 ? 100 * row.seconds / all_seconds : 0),
       row.flops > 0 ? Cell(row.flops / 1e6) : Cell(), row.flops > 0 ? Cell(row.flops / seconds / 1e9) : Cell(),
       Cell(row.bytes / 1e6), Cell(row.bytes / seconds / 1e9), Cell(static_cast<double>(row.live_bytes) / 1024),
       Cell(100 * row.roofline_seconds / seconds)});
  table.Add(std::move(first));
}

Table GroupTable(const Profile& profile, const char* name, std::string InstructionProfile::*key) {
  Table table(Columns({{name, false, 4, 40}}));
  const double all = profile.kernel_seconds() / static_cast<double>(std::max<int64_t>(profile.steps, 1));
  for (const ProfileGroup& group : GroupBy(profile, key))
    AddRow(table, {Cell(group.name)}, PerStep(group, profile), all);
  return table;
}

Table InstructionTable(const Profile& profile) {
  Table table(Columns({{"node", false, 4, 52},
                       {"op", true},
                       {"layer", true},
                       {"implementation", false, 4, 32},
                       {"kernel", true},
                       {"shapes", true},
                       {"built_at", true}}));
  const auto steps = static_cast<double>(std::max<int64_t>(profile.steps, 1));
  for (const InstructionProfile& row : profile.instructions) {
    const double calls = static_cast<double>(row.calls) / steps;
    AddRow(table,
           {Cell(row.node), Cell(row.op), Cell(row.layer), TextCell(row.implementation), TextCell(row.kernel),
            TextCell(row.shapes), TextCell(row.source_line)},
           {calls, row.seconds / steps, row.flops * calls, row.bytes * calls,
            profile.roofline.Seconds(row.flops, row.bytes) * calls, row.live_bytes},
           profile.kernel_seconds() / steps);
  }
  return table;
}

std::string Footprint(double bytes) {
  return bytes < 1 << 20 ? fmt::format("{:.0f} KiB", bytes / 1024) : fmt::format("{:.0f} MiB", bytes / (1 << 20));
}

std::string WhereOf(const Profile& profile) {
  if (profile.threads == 0) return "a device";
  return fmt::format("{} thread{}", profile.threads, profile.threads == 1 ? "" : "s");
}

}  // namespace

std::string ProfileText(const Profile& profile, bool all) {
  const double ms = 1e3 / static_cast<double>(std::max<int64_t>(profile.steps, 1));
  std::string text =
      fmt::format("{}\n{} step{} of {:.3f} ms on {}: {:.3f} ms in kernels, {:.3f} ms between them", profile.title,
                  profile.steps, profile.steps == 1 ? "" : "s", profile.step_seconds * ms, WhereOf(profile),
                  profile.kernel_seconds() * ms, std::max(profile.run_seconds - profile.kernel_seconds(), 0.0) * ms);
  if (profile.step_seconds > profile.run_seconds * 1.0001)
    text += fmt::format(", {:.3f} ms for input", (profile.step_seconds - profile.run_seconds) * ms);
  text += fmt::format("; {:.1f} KiB of arena\n", static_cast<double>(profile.arena_bytes) / 1024);
  const int threads = profile.roofline.threads;
  text += fmt::format("{}: {:.1f} GFLOP/s",
                      threads == 0 ? "this device" : fmt::format("this machine, per thread of {}", threads),
                      profile.roofline.flops_per_second / 1e9);
  for (const Roofline::Bandwidth& bandwidth : profile.roofline.bandwidths)
    text += fmt::format(", {} at {:.1f} GB/s", Footprint(bandwidth.footprint), bandwidth.bytes_per_second / 1e9);
  text += "\n\n" + GroupTable(profile, "op", &InstructionProfile::op).Text();
  text += "\n" + GroupTable(profile, "layer", &InstructionProfile::layer).Text();
  if (all) text += "\n" + InstructionTable(profile).Text();
  const std::vector<ProfileLoss> losses = LargestLosses(profile);
  if (!losses.empty()) text += "\nlargest losses\n";
  for (size_t i = 0; i < losses.size(); ++i) {
    // Its origin on one line, its cost on the next.
    std::string sentence = losses[i].sentence;
    if (const size_t end = sentence.find("): "); end != std::string::npos) sentence.replace(end, 3, ")\n   ");
    text += fmt::format("{}. {}\n", i + 1, sentence);
  }
  if (profile.dropped > 0) text += fmt::format("\n{} calls of very long steps were not recorded\n", profile.dropped);
  return text;
}

std::string ProfileReportJson(const Profile& profile) {
  Json json = ProfileJson(profile);
  json["ops"] = GroupTable(profile, "op", &InstructionProfile::op).Rows();
  json["layers"] = GroupTable(profile, "layer", &InstructionProfile::layer).Rows();
  json["implementations"] = GroupTable(profile, "implementation", &InstructionProfile::implementation).Rows();
  json["instructions"] = InstructionTable(profile).Rows();
  json["kernel_seconds"] = profile.kernel_seconds();
  Json losses = Json::Array();
  for (const ProfileLoss& loss : LargestLosses(profile))
    losses.Append({{"node", loss.instruction->node},
                   {"op", loss.instruction->op},
                   {"layer", loss.instruction->layer},
                   {"kernel", loss.instruction->kernel},
                   {"implementation", loss.instruction->implementation},
                   {"built_at", loss.instruction->source_line},
                   {"lost_seconds", loss.lost_seconds},
                   {"roofline_seconds", loss.roofline_seconds},
                   {"bound", Name(loss.bound)},
                   {"sentence", loss.sentence}});
  json["losses"] = losses;
  return json.Dump() + "\n";
}

}  // namespace rivulet
