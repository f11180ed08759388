// RangeDataset: start, start + step, … to before stop.
#include "engine/input/pipeline_registry.h"

namespace rivulet {
namespace {

class RangePipeline : public Pipeline {
 public:
  RangePipeline(std::string where, std::vector<TensorSpec> specs, int64_t start, int64_t stop, int64_t step)
      : Pipeline(std::move(where), std::move(specs)), start_(start), stop_(stop), step_(step) {}

  StatusOr<std::unique_ptr<PipelineIterator>> MakeIterator(const IteratorContext& context) const override {
    return std::make_unique<Iterator>(*this, context);
  }

 private:
  class Iterator : public IteratorOf<RangePipeline> {
   public:
    Iterator(const RangePipeline& range, const IteratorContext& context)
        : IteratorOf(range, context), next_(range.start_) {}

   private:
    StatusOr<bool> DoNext(const CancellationToken&, Element& element) override {
      const RangePipeline& range = pipeline();
      if (done_ || (range.step_ > 0 ? next_ >= range.stop_ : next_ <= range.stop_)) return false;
      if (range.specs()[0].dtype == DType::kInt64) {
        element = Element({Tensor::Scalar<int64_t>(next_)});
      } else {
        element = Element({Tensor::Scalar<int32_t>(static_cast<int32_t>(next_))});
      }
      done_ = __builtin_add_overflow(next_, range.step_, &next_);
      return true;
    }
    int64_t next_;
    bool done_ = false;
  };
  const int64_t start_, stop_, step_;
};

StatusOr<std::shared_ptr<Pipeline>> MakeRange(PipelineArguments& arguments) {
  RIVULET_ASSIGN_OR_RETURN(const int64_t start, arguments.Integer(0, "start"));
  RIVULET_ASSIGN_OR_RETURN(const int64_t stop, arguments.Integer(1, "stop"));
  RIVULET_ASSIGN_OR_RETURN(const int64_t step, arguments.Integer(2, "step"));
  if (step == 0) return InvalidArgument("{}: step must be a non-zero integer.", arguments.where());
  RIVULET_ASSIGN_OR_RETURN(const std::vector<TensorSpec> said, arguments.OutputSpecs());
  const bool narrow = said.size() == 1 && said[0].dtype == DType::kInt32;
  RIVULET_ASSIGN_OR_RETURN(auto specs, arguments.Check({{narrow ? DType::kInt32 : DType::kInt64, Shape{}}}));
  return std::make_shared<RangePipeline>(arguments.where(), std::move(specs), start, stop, step);
}

RIVULET_DATASET_OP("RangeDataset", MakeRange);

}  // namespace
}  // namespace rivulet
