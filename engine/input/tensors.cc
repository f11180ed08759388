// TensorDataset: one element with the tensors. TensorSliceDataset: one element for each row of all of them.
#include <cstring>

#include "engine/input/pipeline_registry.h"

namespace rivulet {
namespace {

class TensorsPipeline : public Pipeline {
 public:
  TensorsPipeline(std::string where, std::vector<TensorSpec> specs, std::vector<Tensor> tensors, bool slices)
      : Pipeline(std::move(where), std::move(specs)),
        tensors_(std::move(tensors)),
        slices_(slices),
        size_(slices ? tensors_[0].shape().dim(0) : 1) {}

  StatusOr<std::unique_ptr<PipelineIterator>> MakeIterator(const IteratorContext& context) const override {
    return std::make_unique<Iterator>(*this, context);
  }

 private:
  class Iterator : public IteratorOf<TensorsPipeline> {
   public:
    using IteratorOf::IteratorOf;

   private:
    friend class TensorsPipeline;
    StatusOr<bool> DoNext(const CancellationToken&, Element& element) override {
      if (next_ >= pipeline().size_) return false;
      std::vector<Component> components;
      for (const Tensor& tensor : pipeline().tensors_) {
        if (!pipeline().slices_) {
          components.emplace_back(tensor);
          continue;
        }
        const std::span<const int64_t> dims = tensor.shape().dims();
        Tensor row(tensor.dtype(), Shape(std::vector<int64_t>(dims.begin() + 1, dims.end())));
        if (row.bytes() > 0)
          std::memcpy(row.data(), tensor.data() + static_cast<size_t>(next_) * row.bytes(), row.bytes());
        components.emplace_back(std::move(row));
      }
      ++next_;
      element = Element(std::move(components));
      return true;
    }
    int64_t next_ = 0;
  };
  const std::vector<Tensor> tensors_;
  const bool slices_;
  const int64_t size_;
};

StatusOr<std::shared_ptr<Pipeline>> MakeTensors(PipelineArguments& arguments, bool slices) {
  std::vector<TensorSpec> computed;
  for (const Tensor& tensor : arguments.tensors) {
    const std::span<const int64_t> dims = tensor.shape().dims();
    if (slices && dims.empty())
      return InvalidArgument("{}: a scalar has no rows; TensorDataset takes it whole", arguments.where());
    if (slices && dims[0] != arguments.tensors[0].shape().dim(0))
      return InvalidArgument("{}: components of {} and {} rows; all must have as many", arguments.where(),
                             arguments.tensors[0].shape().dim(0), dims[0]);
    computed.push_back(
        {tensor.dtype(), slices ? Shape(std::vector<int64_t>(dims.begin() + 1, dims.end())) : tensor.shape()});
  }
  RIVULET_ASSIGN_OR_RETURN(auto specs, arguments.Check(computed));
  return std::make_shared<TensorsPipeline>(arguments.where(), std::move(specs), std::move(arguments.tensors), slices);
}

RIVULET_DATASET_OP("TensorDataset", [](PipelineArguments& arguments) { return MakeTensors(arguments, false); });
RIVULET_DATASET_OP("TensorSliceDataset", [](PipelineArguments& arguments) { return MakeTensors(arguments, true); });

}  // namespace
}  // namespace rivulet
