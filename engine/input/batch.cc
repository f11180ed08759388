// BatchDatasetV2: combines batch_size elements along a new first dimension. PaddedBatchDatasetV2: the same for elements
// of different sizes, each padded to a common size. The last batch may be smaller, or is dropped.
#include <optional>

#include "engine/input/pipeline_registry.h"

namespace rivulet {
namespace {

struct Padding {
  std::vector<Shape> shapes;   // an unknown dimension: the maximum in the batch
  std::vector<Tensor> values;  // scalars
};

class BatchPipeline : public Pipeline {
 public:
  BatchPipeline(std::string where, std::vector<TensorSpec> specs, std::shared_ptr<const Pipeline> input,
                int64_t batch_size, bool drop_remainder, std::optional<Padding> padding)
      : Pipeline(std::move(where), std::move(specs)),
        input_(std::move(input)),
        batch_size_(batch_size),
        drop_remainder_(drop_remainder),
        padding_(std::move(padding)) {}

  StatusOr<std::unique_ptr<PipelineIterator>> MakeIterator(const IteratorContext& context) const override {
    RIVULET_ASSIGN_OR_RETURN(auto input, input_->MakeIterator(context));
    return std::make_unique<Iterator>(*this, context, std::move(input));
  }

 private:
  class Iterator : public IteratorOf<BatchPipeline> {
   public:
    Iterator(const BatchPipeline& pipeline, const IteratorContext& context, std::unique_ptr<PipelineIterator> input)
        : IteratorOf(pipeline, context), input_(std::move(input)) {}

   private:
    StatusOr<bool> DoNext(const CancellationToken& cancel, Element& element) override {
      std::vector<Element> elements;
      HeldBytes held(context().budget);
      while (!ended_ && static_cast<int64_t>(elements.size()) < pipeline().batch_size_) {
        Element next;
        RIVULET_ASSIGN_OR_RETURN(const bool more, input_->Next(cancel, next));
        if (!more) {
          ended_ = true;
          break;
        }
        // Read at once, so that the budget counts its memory; an unread element would count as zero.
        RIVULET_RETURN_IF_ERROR(next.Components().status());
        RIVULET_RETURN_IF_ERROR(held.Add(next.bytes(), where()));
        elements.push_back(std::move(next));
      }
      if (elements.empty()) return false;
      if (pipeline().drop_remainder_ && static_cast<int64_t>(elements.size()) < pipeline().batch_size_) return false;
      std::vector<std::span<const Component>> rows;
      for (Element& each : elements) {
        RIVULET_ASSIGN_OR_RETURN(rows.emplace_back(), each.Components());
      }
      std::vector<Component> batch;
      for (size_t i = 0; i < pipeline().specs().size(); ++i) {
        StatusOr<Component> stacked = pipeline().padding_.has_value() ? Padded(rows, i) : Stack(rows, i);
        if (!stacked.ok()) return Annotate(stacked.status(), where());
        RIVULET_RETURN_IF_ERROR(held.Add(stacked->bytes(), where()));
        batch.push_back(*std::move(stacked));
      }
      element = Element(std::move(batch));
      return true;
    }

    StatusOr<Component> Padded(const std::vector<std::span<const Component>>& rows, size_t i) const {
      const Padding& padding = *pipeline().padding_;
      Shape shape = padding.shapes[i];
      for (int axis = 0; axis < shape.rank(); ++axis) {
        if (shape.dim(axis) != kUnknownDim) continue;
        int64_t largest = 0;
        for (const auto& row : rows) {
          if (row[i].shape().rank() != shape.rank())
            return InvalidArgument(
                "All elements in a batch must have the same rank as the padded shape for component "
                "{}: expected rank {} but got element with rank {}",
                i, shape.rank(), row[i].shape().rank());
          largest = std::max(largest, row[i].shape().dim(axis));
        }
        shape.set_dim(axis, largest);
      }
      return StackPadded(rows, i, shape, padding.values[i]);
    }

    const std::unique_ptr<PipelineIterator> input_;
    bool ended_ = false;
  };

  const std::shared_ptr<const Pipeline> input_;
  const int64_t batch_size_;
  const bool drop_remainder_;
  const std::optional<Padding> padding_;
};

Shape Batched(int64_t rows, const Shape& element) {
  if (!element.known_rank()) return Shape::UnknownRank();
  std::vector<int64_t> dims = {rows};
  dims.insert(dims.end(), element.dims().begin(), element.dims().end());
  return Shape(std::move(dims));
}

StatusOr<std::shared_ptr<Pipeline>> MakeStage(PipelineArguments& arguments, int64_t batch_size, bool drop_remainder,
                                              std::optional<Padding> padding) {
  if (batch_size <= 0)
    return InvalidArgument("{}: Batch size must be greater than zero, not {}", arguments.where(), batch_size);
  std::vector<TensorSpec> computed;
  for (size_t i = 0; i < arguments.datasets[0]->specs().size(); ++i) {
    const TensorSpec& element = arguments.datasets[0]->specs()[i];
    computed.push_back({element.dtype, Batched(drop_remainder ? batch_size : kUnknownDim,
                                               padding.has_value() ? padding->shapes[i] : element.shape)});
  }
  RIVULET_ASSIGN_OR_RETURN(auto specs, arguments.Check(computed));
  return std::make_shared<BatchPipeline>(arguments.where(), std::move(specs), arguments.datasets[0], batch_size,
                                         drop_remainder, std::move(padding));
}

StatusOr<std::shared_ptr<Pipeline>> MakeBatch(PipelineArguments& arguments) {
  RIVULET_ASSIGN_OR_RETURN(const int64_t batch_size, arguments.Integer(0, "batch_size"));
  RIVULET_ASSIGN_OR_RETURN(const bool drop_remainder, arguments.Boolean(1, "drop_remainder"));
  return MakeStage(arguments, batch_size, drop_remainder, std::nullopt);
}

StatusOr<std::shared_ptr<Pipeline>> MakePaddedBatch(PipelineArguments& arguments) {
  const std::vector<TensorSpec>& elements = arguments.datasets[0]->specs();
  const size_t components = elements.size();
  // batch_size, a shape and a value for each component, drop_remainder
  if (arguments.tensors.size() != 2 + 2 * components)
    return InvalidArgument("{}: elements of {} components, and {} shapes and values to pad them to", arguments.where(),
                           components, arguments.tensors.size() - 2);
  RIVULET_ASSIGN_OR_RETURN(const int64_t batch_size, arguments.Integer(0, "batch_size"));
  Padding padding;
  for (size_t i = 0; i < components; ++i) {
    const Tensor& sizes = arguments.tensors[1 + i];
    if (sizes.dtype() != DType::kInt64 || sizes.shape().rank() != 1)
      return InvalidArgument("{}: padded shape {} must be an int64 vector", arguments.where(), i);
    Shape shape(std::vector<int64_t>(sizes.flat<int64_t>().begin(), sizes.flat<int64_t>().end()));
    for (const int64_t size : shape.dims())
      if (size < kUnknownDim) return InvalidArgument("{}: padded shape {} has the size {}", arguments.where(), i, size);
    if (elements[i].shape.known_rank() && elements[i].shape.rank() != shape.rank())
      return InvalidArgument("{}: component {} has shape {}, and is to be padded to {}", arguments.where(), i,
                             elements[i].shape.ToString(), shape.ToString());
    const Tensor& value = arguments.tensors[1 + components + i];
    if (value.shape().rank() != 0 || value.dtype() != elements[i].dtype)
      return InvalidArgument("{}: padding value {} must be a {} scalar", arguments.where(), i, Name(elements[i].dtype));
    padding.shapes.push_back(std::move(shape));
    padding.values.push_back(value);
  }
  RIVULET_ASSIGN_OR_RETURN(const bool drop_remainder, arguments.Boolean(1 + 2 * components, "drop_remainder"));
  return MakeStage(arguments, batch_size, drop_remainder, std::move(padding));
}

RIVULET_DATASET_OP("BatchDatasetV2", MakeBatch);
RIVULET_DATASET_OP("PaddedBatchDatasetV2", MakePaddedBatch);

}  // namespace
}  // namespace rivulet
