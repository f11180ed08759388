#include "setup/plan_file.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "engine/base/sha256.h"
#include "engine/base/write_target.h"

namespace rivulet {
namespace {

// The first line of the keys' file, a comment in TOML: the digests of the plan and of the keys.
std::string HeadOf(const Digest& plan, std::string_view keys) {
  return fmt::format("# keys {} of plan {}\n", Sha256Of(keys).Hex(), plan.Hex());
}

// The keys without their head. DATA_LOSS: they belong to another plan, or are incomplete.
StatusOr<std::string_view> KeysOf(const Digest& plan, const std::string& path, std::string_view keys,
                                  const std::string& keys_path) {
  const size_t line = std::min(keys.find('\n') + 1, keys.size());
  if (keys.substr(0, line) == HeadOf(plan, keys.substr(line))) return keys.substr(line);
  return DataLoss(
      "the plan '{}' (SHA-256 {}) and the keys '{}' do not belong together, or one of them is damaged; build both "
      "again",
      path, plan.Hex(), keys_path);
}

}  // namespace

bool PlanHoldsFiles(const Scenario& scenario) {
  const ModelConfig& model = scenario.model;
  const std::string* const files[] = {&model.graph,
                                      &model.onnx,
                                      &model.arrays,
                                      &model.weights,
                                      &model.columns,
                                      &scenario.algorithm.graph,
                                      &scenario.client.input_graph};
  return std::ranges::any_of(files, [](const std::string* path) { return !path->empty(); });
}

std::string PlanKeysPath(const std::string& path) { return path + ".keys.toml"; }

Status WritePlanFile(FileSystem& fs, const std::string& path, const Plan& plan, const Scenario& scenario) {
  // A device or a pipe can have no file beside it.
  RIVULET_ASSIGN_OR_RETURN(const WriteTarget target, WriteTargetOf(path));
  if (target.in_place)
    return InvalidArgument("a plan cannot be written to '{}', which is no plain file: its keys are written beside it",
                           path);
  const std::string keys = scenario.PlanKeysToToml();
  RIVULET_RETURN_IF_ERROR(WriteFileAtomically(fs, path, plan.bytes()));
  return WriteFileAtomically(fs, PlanKeysPath(path), HeadOf(plan.digest(), keys) + keys);
}

Status WriteSignedPlan(FileSystem& fs, const std::string& from, const std::string& to, const Plan& plan) {
  RIVULET_ASSIGN_OR_RETURN(const std::string before, fs.ReadAll(from));
  const StatusOr<std::string> text = fs.ReadAll(PlanKeysPath(from));
  if (absl::IsNotFound(text.status())) return WriteFileAtomically(fs, to, plan.bytes());
  RIVULET_RETURN_IF_ERROR(text.status());
  RIVULET_ASSIGN_OR_RETURN(const std::string_view keys, KeysOf(Sha256Of(before), from, *text, PlanKeysPath(from)));
  RIVULET_RETURN_IF_ERROR(WriteFileAtomically(fs, to, plan.bytes()));
  return WriteFileAtomically(fs, PlanKeysPath(to), HeadOf(plan.digest(), keys) + std::string(keys));
}

StatusOr<PlanFile> ReadPlanFile(FileSystem& fs, const std::string& path, const Scenario& now) {
  const std::string keys_path = PlanKeysPath(path);
  RIVULET_ASSIGN_OR_RETURN(std::string bytes, fs.ReadAll(path));
  StatusOr<std::string> keys = fs.ReadAll(keys_path);
  if (absl::IsNotFound(keys.status())) {
    return NotFound("'{}' is not beside the plan '{}'; `rivulet plan build` writes both, and a run needs both",
                    keys_path, path);
  }
  RIVULET_RETURN_IF_ERROR(keys.status());
  RIVULET_RETURN_IF_ERROR(KeysOf(Sha256Of(bytes), path, *keys, keys_path).status());
  StatusOr<std::shared_ptr<const Plan>> plan = Plan::Open(std::move(bytes));
  if (!plan.ok()) return Annotate(plan.status(), path);
  RIVULET_ASSIGN_OR_RETURN(Scenario scenario, ScenarioOfPlan(*keys, keys_path, now));
  return PlanFile{*std::move(plan), std::move(scenario)};
}

}  // namespace rivulet
