#include "engine/program/element_fusion.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/program/gpu_elements.h"
#include "engine/program/place_index.h"

namespace rivulet {
namespace {

constexpr std::string_view kChain = "cuda ";  // prefix of joined steps in listings

class ElementFusion {
 public:
  // Indexes the producers and readers of storages, and the writers of variables: a training step has as many of each as
  // it has layers, and each step needs them.
  ElementFusion(std::vector<Storage>& storages, std::vector<Step>& steps)
      : storages_(storages), steps_(steps), maker_(storages.size()), readers_(storages.size(), 0) {
    for (size_t i = 0; i < steps_.size(); ++i) {
      for (const int output : steps_[i].outputs) maker_[static_cast<size_t>(output)] = i;
      CountReader(steps_[i], +1);
      for (const VariablePlace& place : WrittenBy(steps_[i])) {
        write_index_.Add(place, writes_.size());
        writes_.push_back({i, place});
      }
    }
  }

  // Earlier steps are already joined when a later one uses them, so that chains grow to full length. A joined step
  // keeps its index until the end, so that indices stay valid.
  void Run() {
    for (size_t i = 0; i < steps_.size(); ++i)
      while (JoinOne(i)) continue;
    std::erase_if(steps_, [](const Step& step) { return step.removed; });
  }

 private:
  const Storage& storage(int index) const { return storages_[static_cast<size_t>(index)]; }

  static const ElementProgram* ProgramOf(const Step& step) {
    if (step.kind != Step::Kind::kKernel || step.scratch >= 0) return nullptr;
    const auto* const elements = dynamic_cast<const GpuElements*>(step.prepared.kernel.get());
    return elements == nullptr ? nullptr : &elements->elements();
  }

  // Counts the steps that read each storage; a step counts once.
  void CountReader(const Step& step, int more) {
    for (auto input = step.inputs.begin(); input != step.inputs.end(); ++input)
      if (std::find(step.inputs.begin(), input, *input) == input) readers_[static_cast<size_t>(*input)] += more;
  }

  // Joins one of the steps that compute inputs of step `consumer` into it, if one is allowed.
  bool JoinOne(size_t consumer) {
    const ElementProgram* const program = ProgramOf(steps_[consumer]);
    if (program == nullptr) return false;
    for (size_t input = 0; input < program->inputs.size(); ++input) {
      if (!program->inputs[input].IsWhole()) continue;
      const int link = steps_[consumer].inputs[input];
      const std::optional<size_t> producer = ProducerOf(link, consumer);
      if (producer && Join(*producer, consumer, input)) return true;
    }
    return false;
  }

  // The step that computes `link` for `consumer` alone, and may be moved there.
  std::optional<size_t> ProducerOf(int link, size_t consumer) const {
    if (storage(link).kind != Storage::Kind::kArena || readers_[static_cast<size_t>(link)] != 1) return std::nullopt;
    const std::optional<size_t> producer = maker_[static_cast<size_t>(link)];
    if (!producer || *producer > consumer) return std::nullopt;
    const Step& step = steps_[*producer];
    const ElementProgram *made = ProgramOf(step), *used = ProgramOf(steps_[consumer]);
    if (made == nullptr || !step.variables.empty() || step.outputs.size() != 1) return std::nullopt;
    if (made->dtype != used->dtype || made->count != used->count) return std::nullopt;
    return MayMove(*producer, consumer) ? producer : std::nullopt;
  }

  // Whether the variables that it reads are unchanged at the later place, also while the later step writes its own
  // results: these are elsewhere, or written element by element where they were read.
  bool MayMove(size_t producer, size_t consumer) const {
    const Step& step = steps_[producer];
    const ElementProgram& program = *ProgramOf(step);
    for (size_t input = 0; input < step.inputs.size(); ++input) {
      const Storage& read = storage(step.inputs[input]);
      if (read.kind != Storage::Kind::kVariable) continue;
      const VariablePlace place = PlaceOf(read);
      const auto disturbs = [&](size_t write) {
        const auto& [by, written] = writes_[write];
        return producer < by && by <= consumer && written.Overlaps(place) &&
               !(by == consumer && program.inputs[input].IsWhole() && written.SameMemory(place));
      };
      if (write_index_.AnyOf(place, disturbs)) return false;
    }
    return true;
  }

  std::vector<VariablePlace> WrittenBy(const Step& step) const {
    std::vector<VariablePlace> written;
    if (step.writes_variables) written = step.variables;
    for (const int output : step.outputs)
      if (storage(output).kind == Storage::Kind::kVariable) written.push_back(PlaceOf(storage(output)));
    return written;
  }

  bool Join(size_t from, size_t to, size_t link) {
    Step &producer = steps_[from], &consumer = steps_[to];
    const ElementProgram &made = *ProgramOf(producer), &used = *ProgramOf(consumer);
    std::vector<int> inputs, input_of;
    std::vector<ElementPlace> sources;
    const auto add = [&](int read, const ElementPlace& source) {
      size_t at = 0;
      while (at < inputs.size() && (inputs[at] != read || !(sources[at] == source))) ++at;
      if (at == inputs.size()) {
        inputs.push_back(read);
        sources.push_back(source);
      }
      input_of.push_back(static_cast<int>(at));
    };
    const int linked = consumer.inputs[link];
    for (size_t i = 0; i < producer.inputs.size(); ++i) add(producer.inputs[i], made.inputs[i]);
    for (size_t i = 0; i < consumer.inputs.size(); ++i) {
      if (i == link) continue;
      if (consumer.inputs[i] == linked) return false;  // read a second time in another way
      add(consumer.inputs[i], used.inputs[i]);
    }
    std::optional<ElementProgram> joined = JoinElements(made, used, link, input_of);
    if (!joined) return false;
    CountReader(producer, -1);
    CountReader(consumer, -1);
    Prepared prepared;
    prepared.implementation = fmt::format("{}{} + {}", kChain, Listed(producer), Listed(consumer));
    prepared.flops = producer.prepared.flops + consumer.prepared.flops;
    prepared.in_place = InPlace(inputs, *joined, consumer);
    prepared.kernel = NewElementChain(*std::move(joined));
    consumer.prepared = std::move(prepared);
    consumer.inputs = std::move(inputs);
    CountReader(consumer, +1);
    producer.removed = true;
    for (const int input : consumer.inputs) {
      Storage& read = storages_[static_cast<size_t>(input)];
      read.last = std::max(read.last, consumer.position);
    }
    // It stays in the list, so that indices do not move, but takes no memory.
    storages_[static_cast<size_t>(linked)].bytes = 0;
    return true;
  }

  // The ops in a step, in the order in which they were joined.
  static std::string Listed(const Step& step) {
    const std::string& known = step.prepared.implementation;
    const bool joined = known.find(" + ") != std::string::npos;
    return joined ? known.substr(kChain.size()) : std::string(step.node->type());
  }

  // Every element is read before it is written, by the same thread.
  std::vector<std::pair<int, int>> InPlace(const std::vector<int>& inputs, const ElementProgram& program,
                                           const Step& step) const {
    std::vector<std::pair<int, int>> pairs;
    if (step.outputs.size() != 1) return pairs;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (program.inputs[i].IsWhole() && program.inputs[i].type == program.targets[0].type)
        pairs.emplace_back(static_cast<int>(i), 0);
    return pairs;
  }

  struct Write {
    size_t by;  // index of the step
    VariablePlace place;
  };

  std::vector<Storage>& storages_;
  std::vector<Step>& steps_;
  std::vector<std::optional<size_t>> maker_;  // for each storage: the last step that writes it
  std::vector<int> readers_;
  // Steps that are joined into later ones write no variable, so this list is constant.
  std::vector<Write> writes_;
  PlaceIndex write_index_;
};

}  // namespace

void FuseElements(std::vector<Storage>& storages, std::vector<Step>& steps) { ElementFusion(storages, steps).Run(); }

}  // namespace rivulet
