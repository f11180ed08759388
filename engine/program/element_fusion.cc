#include "engine/program/element_fusion.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/program/gpu_elements.h"

namespace rivulet {
namespace {

constexpr std::string_view kChain = "cuda ";  // what listings of joined steps begin with

class ElementFusion {
 public:
  ElementFusion(std::vector<Storage>& storages, std::vector<Step>& steps) : storages_(storages), steps_(steps) {}

  // Earlier steps are joined already when a later one asks for them, so that chains grow to their full length.
  void Run() {
    for (size_t i = 0; i < steps_.size(); ++i) {
      while (const auto producer = JoinOne(i)) {
        steps_.erase(steps_.begin() + static_cast<std::ptrdiff_t>(*producer));
        --i;
      }
    }
  }

 private:
  const Storage& storage(int index) const { return storages_[static_cast<size_t>(index)]; }

  static const ElementProgram* ProgramOf(const Step& step) {
    if (step.kind != Step::Kind::kKernel || step.scratch >= 0) return nullptr;
    const auto* const elements = dynamic_cast<const GpuElements*>(step.prepared.kernel.get());
    return elements == nullptr ? nullptr : &elements->elements();
  }

  // Puts one of the steps that make inputs of step `consumer` into it, and tells which.
  std::optional<size_t> JoinOne(size_t consumer) {
    const ElementProgram* const program = ProgramOf(steps_[consumer]);
    if (program == nullptr) return std::nullopt;
    for (size_t input = 0; input < program->inputs.size(); ++input) {
      if (!program->inputs[input].IsWhole()) continue;
      const int link = steps_[consumer].inputs[input];
      const std::optional<size_t> producer = ProducerOf(link, consumer);
      if (producer && Join(*producer, consumer, input)) return producer;
    }
    return std::nullopt;
  }

  // The step that makes `link` for nobody but step `consumer`, and may be moved there.
  std::optional<size_t> ProducerOf(int link, size_t consumer) const {
    if (storage(link).kind != Storage::Kind::kArena) return std::nullopt;
    std::optional<size_t> producer;
    for (size_t i = 0; i < steps_.size(); ++i) {
      const Step& step = steps_[i];
      if (i != consumer && std::ranges::find(step.inputs, link) != step.inputs.end()) return std::nullopt;
      if (std::ranges::find(step.outputs, link) != step.outputs.end()) producer = i;
    }
    if (!producer || *producer > consumer) return std::nullopt;
    const Step& step = steps_[*producer];
    const ElementProgram *made = ProgramOf(step), *used = ProgramOf(steps_[consumer]);
    if (made == nullptr || !step.variables.empty() || step.outputs.size() != 1) return std::nullopt;
    if (made->dtype != used->dtype || made->count != used->count) return std::nullopt;
    return MayMove(*producer, consumer) ? producer : std::nullopt;
  }

  // What it reads of variables is the same at the later place, also while the later step writes its own results: those
  // lie beside, or element for element where they were read.
  bool MayMove(size_t producer, size_t consumer) const {
    const Step& step = steps_[producer];
    const ElementProgram& program = *ProgramOf(step);
    for (size_t input = 0; input < step.inputs.size(); ++input) {
      const Storage& read = storage(step.inputs[input]);
      if (read.kind != Storage::Kind::kVariable) continue;
      const VariablePlace place = PlaceOf(read);
      for (size_t i = producer + 1; i <= consumer; ++i) {
        const auto disturbs = [&](const VariablePlace& written) {
          return written.Overlaps(place) &&
                 !(i == consumer && program.inputs[input].IsWhole() && written.SameMemory(place));
        };
        if (std::ranges::any_of(WrittenBy(steps_[i]), disturbs)) return false;
      }
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
    Prepared prepared;
    prepared.implementation = fmt::format("{}{} + {}", kChain, Listed(producer), Listed(consumer));
    prepared.flops = producer.prepared.flops + consumer.prepared.flops;
    prepared.in_place = InPlace(inputs, *joined, consumer);
    prepared.kernel = NewElementChain(*std::move(joined));
    consumer.prepared = std::move(prepared);
    consumer.inputs = std::move(inputs);
    for (const int input : consumer.inputs) {
      Storage& read = storages_[static_cast<size_t>(input)];
      read.last = std::max(read.last, consumer.position);
    }
    // It stays in the list, where indices must not move, and takes no room.
    storages_[static_cast<size_t>(linked)].bytes = 0;
    return true;
  }

  // The ops in a step, in the order in which they were joined.
  static std::string Listed(const Step& step) {
    const std::string& known = step.prepared.implementation;
    const bool joined = known.find(" + ") != std::string::npos;
    return joined ? known.substr(kChain.size()) : std::string(step.node->type());
  }

  // Every element is read before it is written, by the thread that writes it.
  std::vector<std::pair<int, int>> InPlace(const std::vector<int>& inputs, const ElementProgram& program,
                                           const Step& step) const {
    std::vector<std::pair<int, int>> pairs;
    if (step.outputs.size() != 1) return pairs;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (program.inputs[i].IsWhole() && program.inputs[i].type == program.targets[0].type)
        pairs.emplace_back(static_cast<int>(i), 0);
    return pairs;
  }

  std::vector<Storage>& storages_;
  std::vector<Step>& steps_;
};

}  // namespace

void FuseElements(std::vector<Storage>& storages, std::vector<Step>& steps) { ElementFusion(storages, steps).Run(); }

}  // namespace rivulet
