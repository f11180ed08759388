// RepeatDataset: all elements, `count` times, or without end if count is negative.
#include "engine/input/pipeline_registry.h"

namespace rivulet {
namespace {

class RepeatPipeline : public Pipeline {
 public:
  RepeatPipeline(std::string where, std::vector<TensorSpec> specs, std::shared_ptr<const Pipeline> input, int64_t count)
      : Pipeline(std::move(where), std::move(specs)), input_(std::move(input)), count_(count) {}

  StatusOr<std::unique_ptr<PipelineIterator>> MakeIterator(const IteratorContext& context) const override {
    return std::make_unique<Iterator>(*this, context);
  }

 private:
  class Iterator : public IteratorOf<RepeatPipeline> {
   public:
    using IteratorOf::IteratorOf;

   private:
    StatusOr<bool> DoNext(const CancellationToken& cancel, Element& element) override {
      const int64_t count = pipeline().count_;
      while (count < 0 || round_ < count) {
        const bool first = input_ == nullptr;
        if (first) {
          RIVULET_ASSIGN_OR_RETURN(input_, pipeline().input_->MakeIterator(context()));
        }
        RIVULET_ASSIGN_OR_RETURN(const bool more, input_->Next(cancel, element));
        if (more) return true;
        input_ = nullptr;
        ++round_;
        if (first && count < 0) break;  // an endless repetition of nothing is empty
      }
      return false;
    }
    std::unique_ptr<PipelineIterator> input_;
    int64_t round_ = 0;
  };
  const std::shared_ptr<const Pipeline> input_;
  const int64_t count_;
};

StatusOr<std::shared_ptr<Pipeline>> MakeRepeat(PipelineArguments& arguments) {
  RIVULET_ASSIGN_OR_RETURN(const int64_t count, arguments.Integer(0, "count"));
  RIVULET_ASSIGN_OR_RETURN(auto specs, arguments.Check(arguments.datasets[0]->specs()));
  return std::make_shared<RepeatPipeline>(arguments.where(), std::move(specs), arguments.datasets[0], count);
}

RIVULET_DATASET_OP("RepeatDataset", MakeRepeat);

}  // namespace
}  // namespace rivulet
