// TakeDataset, SkipDataset and ShardDataset: selection of elements by position.
#include "engine/input/pipeline_registry.h"

namespace rivulet {
namespace {

// Elements at positions begin, begin + stride, … before end.
class PositionsPipeline : public Pipeline {
 public:
  struct Positions {
    int64_t begin = 0, end = INT64_MAX, stride = 1;
    bool require_non_empty = false;
  };
  PositionsPipeline(std::string where, std::vector<TensorSpec> specs, std::shared_ptr<const Pipeline> input,
                    Positions positions)
      : Pipeline(std::move(where), std::move(specs)), input_(std::move(input)), positions_(positions) {}

  StatusOr<std::unique_ptr<PipelineIterator>> MakeIterator(const IteratorContext& context) const override {
    RIVULET_ASSIGN_OR_RETURN(auto input, input_->MakeIterator(context));
    return std::make_unique<Iterator>(*this, context, std::move(input));
  }

 private:
  class Iterator : public IteratorOf<PositionsPipeline> {
   public:
    Iterator(const PositionsPipeline& pipeline, const IteratorContext& context, std::unique_ptr<PipelineIterator> input)
        : IteratorOf(pipeline, context), input_(std::move(input)) {}

   private:
    StatusOr<bool> DoNext(const CancellationToken& cancel, Element& element) override {
      const Positions& positions = pipeline().positions_;
      while (next_ < positions.end) {
        RIVULET_ASSIGN_OR_RETURN(const bool more, input_->Next(cancel, element));
        if (!more) break;
        const int64_t position = next_++;
        if (position < positions.begin || (position - positions.begin) % positions.stride != 0) continue;
        found_ = true;
        return true;
      }
      next_ = positions.end;
      if (positions.require_non_empty && !found_)
        return InvalidArgument("{}: there are fewer elements than shards, and require_non_empty is set", where());
      return false;
    }
    const std::unique_ptr<PipelineIterator> input_;
    int64_t next_ = 0;
    bool found_ = false;
  };
  const std::shared_ptr<const Pipeline> input_;
  const Positions positions_;
};

StatusOr<std::shared_ptr<Pipeline>> MakePositions(PipelineArguments& arguments,
                                                  const PositionsPipeline::Positions& positions) {
  RIVULET_ASSIGN_OR_RETURN(auto specs, arguments.Check(arguments.datasets[0]->specs()));
  return std::make_shared<PositionsPipeline>(arguments.where(), std::move(specs), arguments.datasets[0], positions);
}

StatusOr<std::shared_ptr<Pipeline>> MakeTake(PipelineArguments& arguments) {
  RIVULET_ASSIGN_OR_RETURN(const int64_t count, arguments.Integer(0, "count"));
  return MakePositions(arguments, {.end = count < 0 ? INT64_MAX : count});
}

StatusOr<std::shared_ptr<Pipeline>> MakeSkip(PipelineArguments& arguments) {
  RIVULET_ASSIGN_OR_RETURN(const int64_t count, arguments.Integer(0, "count"));
  if (count < 0) return MakePositions(arguments, {.end = 0});
  return MakePositions(arguments, {.begin = count});
}

StatusOr<std::shared_ptr<Pipeline>> MakeShard(PipelineArguments& arguments) {
  RIVULET_ASSIGN_OR_RETURN(const int64_t shards, arguments.Integer(0, "num_shards"));
  RIVULET_ASSIGN_OR_RETURN(const int64_t index, arguments.Integer(1, "index"));
  if (shards <= 0)
    return InvalidArgument("{}: Number of shards must be greater than zero (got {}).", arguments.where(), shards);
  if (index < 0 || index >= shards)
    return InvalidArgument("{}: Index must be between 0 and {} (got {}).", arguments.where(), shards - 1, index);
  return MakePositions(
      arguments,
      {.begin = index, .stride = shards, .require_non_empty = arguments.node.attr<bool>("require_non_empty")});
}

RIVULET_DATASET_OP("TakeDataset", MakeTake);
RIVULET_DATASET_OP("SkipDataset", MakeSkip);
RIVULET_DATASET_OP("ShardDataset", MakeShard);

}  // namespace
}  // namespace rivulet
