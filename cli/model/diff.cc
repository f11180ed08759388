#include "cli/model/diff.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>

#include "cli/model/weights_source.h"
#include "engine/base/shown_text.h"
#include "engine/base/table.h"
#include "engine/debug/tensor_difference.h"
#include "federated/weights/model.h"

namespace rivulet {
namespace {

struct DiffArguments {
  std::string first, second;
  std::string db = "./rivulet.sqlite";
  std::string tolerance;
  bool all = false;
  bool json = false;
};

struct DiffCount {
  int64_t same = 0, changed = 0, reshaped = 0, only_first = 0, only_second = 0;
  int64_t different() const { return changed + reshaped + only_first + only_second; }
};

StatusOr<double> ReadTolerance(const std::string& text) {
  double value = 0;
  if (text.empty()) return value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0) || !std::isfinite(value))
    return UsageError("--tolerance must be a number of at least 0, not '{}'", text);
  return value;
}

std::string Described(const Tensor& tensor) {
  return fmt::format("{}{}", Name(tensor.dtype()), tensor.shape().ToString());
}

Status Diff(const DiffArguments& arguments) {
  RIVULET_ASSIGN_OR_RETURN(const double tolerance, ReadTolerance(arguments.tolerance));
  RIVULET_ASSIGN_OR_RETURN(const WeightsSource first, LoadWeights(arguments.first, arguments.db));
  RIVULET_ASSIGN_OR_RETURN(const WeightsSource second, LoadWeights(arguments.second, arguments.db));
  const auto find = [](const NamedWeights& weights, const std::string& name) -> const Tensor* {
    const auto found = std::ranges::find(weights, name, [](const auto& weight) { return weight.first; });
    return found == weights.end() ? nullptr : &found->second;
  };
  const std::string bases[] = {StatedBase(first.metadata), StatedBase(second.metadata)};
  Table table({{"tensor"}, {"status"}, {"first"}, {"second"}, {"differing"}, {"largest"}, {"mean"}, {"relative"}});
  DiffCount count;
  for (const auto& [name, tensor] : first.weights) {
    const Tensor* other = find(second.weights, name);
    if (other == nullptr) {
      ++count.only_first;
      table.Add({name, "only in the first", Described(tensor), {}, {}, {}, {}, {}});
    } else if (other->shape() != tensor.shape() || other->dtype() != tensor.dtype()) {
      ++count.reshaped;
      table.Add({name, "of another type or shape", Described(tensor), Described(*other), {}, {}, {}, {}});
    } else {
      const TensorDifference difference = DifferenceOf(tensor.view(), other->view());
      const bool same = difference.only_one_finite == 0 &&
                        (difference.differing == 0 || (tolerance > 0 && difference.relative <= tolerance));
      ++(same ? count.same : count.changed);
      if (!same || arguments.all)
        table.Add({name, same ? "same" : "changed", Described(tensor), Described(*other), difference.differing,
                   difference.largest, difference.mean, difference.relative});
    }
  }
  for (const auto& [name, tensor] : second.weights) {
    if (find(first.weights, name) != nullptr) continue;
    ++count.only_second;
    table.Add({name, "only in the second", {}, Described(tensor), {}, {}, {}, {}});
  }
  if (bases[0] != bases[1]) {
    ++count.changed;
    const auto shown = [](const std::string& digest) { return digest.empty() ? "none" : OneLine(digest); };
    table.Add({"(base)", "another base", shown(bases[0]), shown(bases[1]), {}, {}, {}, {}});
  }
  Fields fields = {{"same", count.same},
                   {"changed", count.changed},
                   {"of_another_type_or_shape", count.reshaped},
                   {"only_in_the_first", count.only_first},
                   {"only_in_the_second", count.only_second}};
  // People get only the non-zero counts; programs find every key.
  if (!arguments.json)
    std::erase_if(fields, [](const auto& field) { return field.first != "same" && field.second == Cell(int64_t{0}); });
  if (arguments.json) {
    std::string head = JsonObject(fields);
    head.pop_back();
    fmt::print("{},\n\"tensors\": {}}}\n", head, table.Json());
  } else {
    fmt::print("{}{}{}", FieldLines(fields), table.size() > 0 ? "\n" : "", table.Text());
  }
  if (count.different() == 0) return absl::OkStatus();
  return FailedPrecondition("{} of {} tensors differ", count.different(), count.different() + count.same);
}

}  // namespace

Command ModelDiffCommand() {
  auto arguments = std::make_shared<DiffArguments>();
  Command command{
      .name = "diff",
      .summary = "Compare the tensors of two models by name. Exit code 0 if they are the same, 1 otherwise.",
      .example =
          "rivulet model diff latest:best latest:latest\n  "
          "rivulet model diff ours.safetensors theirs.npz --tolerance 1e-6"};
  command
      .Positional(
          "FIRST", &arguments->first,
          "RUN:ROUND of the history, ROUND being a number, 'latest' or 'best'; FILE.safetensors, FILE.npz or a model")
      .Positional("SECOND", &arguments->second, "the model to compare with")
      .Option("--tolerance", "R", &arguments->tolerance,
              "tensors with ||first - second|| <= R ||first|| count as the same [0: every bit]")
      .Option("--db", "FILE", &arguments->db, "the history that has the runs [./rivulet.sqlite]")
      .Flag("--all", &arguments->all, "list equal tensors too")
      .Flag("--json", &arguments->json, "print one JSON object");
  command.run = [arguments] { return Diff(*arguments); };
  return command;
}

}  // namespace rivulet
