#include "client/training/planned_memory.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "federated/plan/example_noise.h"

namespace rivulet {
namespace {

int64_t Megabytes(int64_t bytes) { return (bytes + 999'999) / 1'000'000; }

int64_t ProgramBytes(const std::shared_ptr<const Program>& program) {
  return program == nullptr ? 0
                            : static_cast<int64_t>(program->memory().arena_bytes + program->memory().constant_bytes);
}

}  // namespace

std::string PlannedMemory::ToString() const {
  return fmt::format("{} MB: {} for the model, {} for the trained vectors, {} for the program, {} for the update",
                     Megabytes(total()), Megabytes(model), Megabytes(vectors), Megabytes(program), Megabytes(transfer));
}

int64_t MostOfAnUpdate(const AggregationSpec& spec, const std::function<int64_t(size_t part)>& size) {
  int64_t most = 0;
  std::map<std::string_view, int64_t> chosen;  // by the scalar that selects among them: the largest
  for (size_t p = 0; p < spec.parts.size(); ++p) {
    if (const std::optional<OnlyWhere>& where = spec.parts[p].only_where) {
      int64_t& largest = chosen[where->scalar];
      largest = std::max(largest, size(p));
    } else {
      most += size(p);
    }
  }
  for (const auto& [scalar, largest] : chosen) most += largest;
  return most;
}

int64_t MostUpdateValues(const AggregationSpec& spec) {
  return MostOfAnUpdate(spec, [&](size_t part) { return spec.parts[part].elements; });
}

int64_t SumBytes(const AggregationSpec& spec) {
  int64_t values = 0;
  for (const PartSpec& part : spec.parts) values += part.elements;
  // A secure sum holds one update's sums and all words besides its own.
  return values * static_cast<int64_t>(sizeof(int64_t)) * (spec.secure.on() ? 3 : 1);
}

StatusOr<PlannedMemory> PlanMemory(PassPrograms& programs, TaskKind kind, int64_t examples) {
  const Plan& plan = programs.plan();
  const BufferTable& buffers = programs.buffers();
  PlannedMemory planned;
  const int64_t model = static_cast<int64_t>(plan.layout()->arena_bytes());
  planned.model = model;
  for (int i = 0; i < buffers.size(); ++i) {
    // Among borrowed memory the base model was counted before; the rest are vectors sent with it. A base's pages belong
    // to its file, and the system may drop them.
    if (buffers.is_base(i)) continue;
    if (buffers.borrowed(i)) {
      if (i != BufferTable::kBaseParams) planned.model += static_cast<int64_t>(buffers.bytes(i));
    } else {
      planned.vectors += static_cast<int64_t>(buffers.bytes(i));
    }
  }
  const LocalProgram& program = *plan.program(kind);
  const bool by_example = kind == TaskKind::kTrain && ExampleNoiseOf(plan).has_value();
  if (by_example) {
    RIVULET_ASSIGN_OR_RETURN(const auto sum, programs.ClippedSum());
    RIVULET_ASSIGN_OR_RETURN(const auto rule, programs.Rule());
    planned.program = std::max(ProgramBytes(sum), ProgramBytes(rule));
    // Sums of doubles, and their noise.
    planned.vectors += 4 * static_cast<int64_t>(buffers.bytes(BufferTable::kGrads));
  }
  for (size_t pass = 0; pass < program.passes.size(); ++pass) {
    // A smaller last batch takes no more than a whole one.
    const int64_t batch = std::clamp<int64_t>(examples, 1, program.passes[pass].batch_size);
    RIVULET_ASSIGN_OR_RETURN(const auto begin, programs.Begin(kind, pass));
    std::shared_ptr<const Program> step;
    if (!by_example) {
      RIVULET_ASSIGN_OR_RETURN(step, programs.Step(kind, pass, batch));
    }
    RIVULET_ASSIGN_OR_RETURN(const auto end, programs.End(kind, pass));
    planned.program = std::max({planned.program, ProgramBytes(begin), ProgramBytes(step), ProgramBytes(end)});
  }
  const int64_t update = MostUpdateValues(plan.aggregation(kind)) * static_cast<int64_t>(sizeof(float));
  planned.transfer = std::max(model, update);
  return planned;
}

}  // namespace rivulet
