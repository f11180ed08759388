// ZipDataset: combines elements of several pipelines. ConcatenateDataset: one pipeline after another.
#include "engine/input/pipeline_registry.h"

namespace rivulet {
namespace {

using Iterators = std::vector<std::unique_ptr<PipelineIterator>>;

class JoinPipeline : public Pipeline {
 public:
  JoinPipeline(std::string where, std::vector<TensorSpec> specs, std::vector<std::shared_ptr<const Pipeline>> inputs,
               bool zip)
      : Pipeline(std::move(where), std::move(specs)), inputs_(std::move(inputs)), zip_(zip) {}

  StatusOr<std::unique_ptr<PipelineIterator>> MakeIterator(const IteratorContext& context) const override {
    Iterators inputs;
    for (const auto& input : inputs_) {
      RIVULET_ASSIGN_OR_RETURN(inputs.emplace_back(), input->MakeIterator(context));
    }
    if (zip_) return std::make_unique<ZipIterator>(*this, context, std::move(inputs));
    return std::make_unique<ConcatenateIterator>(*this, context, std::move(inputs));
  }

 private:
  class ZipIterator : public IteratorOf<JoinPipeline> {
   public:
    ZipIterator(const JoinPipeline& pipeline, const IteratorContext& context, Iterators inputs)
        : IteratorOf(pipeline, context), inputs_(std::move(inputs)) {}

   private:
    StatusOr<bool> DoNext(const CancellationToken& cancel, Element& element) override {
      std::vector<Component> all;
      for (const auto& input : inputs_) {
        Element part;
        if (done_) return false;
        RIVULET_ASSIGN_OR_RETURN(const bool more, input->Next(cancel, part));
        if (!more) {
          done_ = true;
          return false;
        }
        RIVULET_ASSIGN_OR_RETURN(const auto components, part.Components());
        all.insert(all.end(), components.begin(), components.end());
      }
      element = Element(std::move(all));
      return true;
    }
    const Iterators inputs_;
    bool done_ = false;
  };

  class ConcatenateIterator : public IteratorOf<JoinPipeline> {
   public:
    ConcatenateIterator(const JoinPipeline& pipeline, const IteratorContext& context, Iterators inputs)
        : IteratorOf(pipeline, context), inputs_(std::move(inputs)) {}

   private:
    StatusOr<bool> DoNext(const CancellationToken& cancel, Element& element) override {
      for (; current_ < inputs_.size(); ++current_) {
        RIVULET_ASSIGN_OR_RETURN(const bool more, inputs_[current_]->Next(cancel, element));
        if (more) return true;
      }
      return false;
    }
    const Iterators inputs_;
    size_t current_ = 0;
  };

  const std::vector<std::shared_ptr<const Pipeline>> inputs_;
  const bool zip_;
};

StatusOr<std::shared_ptr<Pipeline>> MakeZip(PipelineArguments& arguments) {
  std::vector<TensorSpec> computed;
  for (const auto& input : arguments.datasets)
    computed.insert(computed.end(), input->specs().begin(), input->specs().end());
  RIVULET_ASSIGN_OR_RETURN(auto specs, arguments.Check(computed));
  return std::make_shared<JoinPipeline>(arguments.where(), std::move(specs), std::move(arguments.datasets), true);
}

// A dimension in which the two differ is unknown.
StatusOr<std::shared_ptr<Pipeline>> MakeConcatenate(PipelineArguments& arguments) {
  const std::vector<TensorSpec>& first = arguments.datasets[0]->specs();
  const std::vector<TensorSpec>& second = arguments.datasets[1]->specs();
  std::vector<TensorSpec> computed = first;
  bool fits = first.size() == second.size();
  for (size_t i = 0; fits && i < first.size(); ++i) {
    fits = first[i].dtype == second[i].dtype;
    if (first[i].shape == second[i].shape) continue;
    if (first[i].shape.known_rank() && second[i].shape.known_rank() &&
        first[i].shape.rank() == second[i].shape.rank()) {
      for (int axis = 0; axis < first[i].shape.rank(); ++axis)
        if (first[i].shape.dim(axis) != second[i].shape.dim(axis)) computed[i].shape.set_dim(axis, kUnknownDim);
    } else {
      computed[i].shape = Shape::UnknownRank();
    }
  }
  if (!fits)
    return InvalidArgument("{}: elements {} cannot follow elements {}", arguments.where(), Describe(second),
                           Describe(first));
  RIVULET_ASSIGN_OR_RETURN(auto specs, arguments.Check(computed));
  return std::make_shared<JoinPipeline>(arguments.where(), std::move(specs), std::move(arguments.datasets), false);
}

RIVULET_DATASET_OP("ZipDataset", MakeZip);
RIVULET_DATASET_OP("ConcatenateDataset", MakeConcatenate);

}  // namespace
}  // namespace rivulet
