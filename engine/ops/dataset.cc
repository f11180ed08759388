// Datasets and iterators, with TensorFlow's names and attributes. A dataset's handle is a variant that means something
// within one run; an iterator lives on between runs. They are carried out by engine/input.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

constexpr std::string_view kNoDatasetGradient = "input is data, and not computed";

Status DatasetHandleShape(InferenceContext& c) {
  c.set_output(0, Shape{});
  return absl::OkStatus();
}

Status ScalarsShape(InferenceContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i)
    if (!Shape::Compatible(c.input(i), Shape{}))
      return InvalidArgument("input {} must be a scalar, not of shape {}", i, c.input(i).ToString());
  return DatasetHandleShape(c);
}

Status OutputsShape(InferenceContext& c) {
  const auto& shapes = c.attr<std::vector<Shape>>("output_shapes");
  const auto& types = c.attr<std::vector<DType>>("output_types");
  if (shapes.size() != types.size())
    return InvalidArgument("{} output types and {} output shapes", types.size(), shapes.size());
  for (size_t i = 0; i < shapes.size(); ++i) c.set_output(static_cast<int>(i), shapes[i]);
  return absl::OkStatus();
}

// A dataset op: the common parts are added here, the inputs by the caller.
#define RIVULET_DATASET(name) \
  RIVULET_OP(name).Output("handle: variant").Stateful().NotDifferentiable(std::string(kNoDatasetGradient))
#define RIVULET_ELEMENTS \
  Attr("output_types: list(type) >= 1").Attr("output_shapes: list(shape) >= 1").Attr("metadata: string = ''")

RIVULET_DATASET("RangeDataset")
    .Input("start: int64")
    .Input("stop: int64")
    .Input("step: int64")
    .RIVULET_ELEMENTS.Attr("replicate_on_split: bool = false")
    .Shape(ScalarsShape)
    .Doc("The integers start, start + step, … to before stop, each an element.");

RIVULET_DATASET("TensorDataset")
    .Input("components: Toutput_types")
    .Attr("Toutput_types: list(type) >= 1")
    .Attr("output_shapes: list(shape) >= 1")
    .Attr("metadata: string = ''")
    .Shape(DatasetHandleShape)
    .Doc("One element: the components as they are.");

RIVULET_DATASET("TensorSliceDataset")
    .Input("components: Toutput_types")
    .Attr("Toutput_types: list(type) >= 1")
    .Attr("output_shapes: list(shape) >= 1")
    .Attr("is_files: bool = false")
    .Attr("metadata: string = ''")
    .Attr("replicate_on_split: bool = false")
    .Shape(DatasetHandleShape)
    .Doc("One element for each row (the first dimension) of the components.");

RIVULET_DATASET("BoundDataset")
    .Attr("name: string")
    .RIVULET_ELEMENTS.Shape(DatasetHandleShape)
    .Doc(
        "All elements, in order, of the data set bound to `name`. They are TFRecord records as strings in a session, "
        "and decoded examples on a client.");

RIVULET_DATASET("BoundFilesDataset")
    .Attr("name: string")
    .RIVULET_ELEMENTS.Shape(DatasetHandleShape)
    .Doc("The numbers 0, 1, … of the files that are bound to `name`.");

RIVULET_DATASET("BoundFileDataset")
    .Input("file: int64")
    .Attr("name: string")
    .RIVULET_ELEMENTS.Shape(ScalarsShape)
    .Doc("The records of one of the files that are bound to `name`, by its number.");

#define RIVULET_COUNTED_DATASET(name) \
  RIVULET_DATASET(name).Input("input_dataset: variant").Input("count: int64").RIVULET_ELEMENTS.Shape(ScalarsShape)

RIVULET_COUNTED_DATASET("TakeDataset").Doc("The first `count` elements; all when it is negative.");
RIVULET_COUNTED_DATASET("SkipDataset").Doc("All but the first `count` elements; none when it is negative.");
RIVULET_COUNTED_DATASET("RepeatDataset").Doc("All elements, `count` times over; without end when it is negative.");

RIVULET_DATASET("ShardDataset")
    .Input("input_dataset: variant")
    .Input("num_shards: int64")
    .Input("index: int64")
    .Attr("require_non_empty: bool = false")
    .RIVULET_ELEMENTS.Shape(ScalarsShape)
    .Doc("Elements index, index + num_shards, ….");

RIVULET_DATASET("ShuffleDataset")
    .Input("input_dataset: variant")
    .Input("buffer_size: int64")
    .Input("seed: int64")
    .Input("seed2: int64")
    .Attr("reshuffle_each_iteration: bool = true")
    .RIVULET_ELEMENTS.Shape(ScalarsShape)
    .Doc(
        "The elements in random order, each drawn from a buffer of the next buffer_size (-1: of all). The order that "
        "seeds give is TensorFlow's; without (0, 0) it follows from the run's own stream.");

RIVULET_DATASET("BatchDatasetV2")
    .Input("input_dataset: variant")
    .Input("batch_size: int64")
    .Input("drop_remainder: bool")
    .Attr("parallel_copy: bool = false")
    .RIVULET_ELEMENTS.Shape(ScalarsShape)
    .Doc("batch_size elements as one, along a new first dimension; the last may be smaller, or is dropped.");

RIVULET_DATASET("PaddedBatchDatasetV2")
    .Input("input_dataset: variant")
    .Input("batch_size: int64")
    .Input("padded_shapes: N * int64")
    .Input("padding_values: Toutput_types")
    .Input("drop_remainder: bool")
    .Attr("parallel_copy: bool = false")
    .Attr("Toutput_types: list(type) >= 1")
    .Attr("output_shapes: list(shape) >= 1")
    .Attr("N: int >= 1")
    .Attr("metadata: string = ''")
    .Shape(DatasetHandleShape)
    .Doc(
        "Batches of elements of different sizes, each padded with padding_values to padded_shapes; a size of -1 there "
        "is the largest of the batch.");

RIVULET_DATASET("MapDataset")
    .Input("input_dataset: variant")
    .Input("other_arguments: Targuments")
    .Attr("f: func")
    .Attr("Targuments: list(type) >= 0")
    .RIVULET_ELEMENTS.Attr("use_inter_op_parallelism: bool = true")
    .Attr("preserve_cardinality: bool = false")
    .Attr("force_synchronous: bool = false")
    .Shape(DatasetHandleShape)
    .Doc("f(element, other_arguments) of each element.");

RIVULET_DATASET("ParallelMapDatasetV2")
    .Input("input_dataset: variant")
    .Input("other_arguments: Targuments")
    .Input("num_parallel_calls: int64")
    .Attr("f: func")
    .Attr("Targuments: list(type) >= 0")
    .RIVULET_ELEMENTS.Attr("use_inter_op_parallelism: bool = true")
    .Attr("deterministic: string = 'default'")
    .Attr("preserve_cardinality: bool = false")
    .Attr("use_unbounded_threadpool: bool = false")
    .Shape(DatasetHandleShape)
    .Doc("As MapDataset. The calls are made one after another, in order; num_parallel_calls has no effect.");

RIVULET_DATASET("FilterDataset")
    .Input("input_dataset: variant")
    .Input("other_arguments: Targuments")
    .Attr("predicate: func")
    .Attr("Targuments: list(type) >= 0")
    .RIVULET_ELEMENTS.Shape(DatasetHandleShape)
    .Doc("The elements of which predicate(element, other_arguments) is true.");

RIVULET_DATASET("FlatMapDataset")
    .Input("input_dataset: variant")
    .Input("other_arguments: Targuments")
    .Attr("f: func")
    .Attr("Targuments: list(type) >= 0")
    .RIVULET_ELEMENTS.Shape(DatasetHandleShape)
    .Doc("f makes a dataset of each element; the elements of these, one dataset after another.");

RIVULET_DATASET("InterleaveDataset")
    .Input("input_dataset: variant")
    .Input("other_arguments: Targuments")
    .Input("cycle_length: int64")
    .Input("block_length: int64")
    .Attr("f: func")
    .Attr("Targuments: list(type) >= 0")
    .RIVULET_ELEMENTS.Shape(DatasetHandleShape)
    .Doc("f makes a dataset of each element; cycle_length of these give block_length elements in turn.");

RIVULET_DATASET("PrefetchDataset")
    .Input("input_dataset: variant")
    .Input("buffer_size: int64")
    .RIVULET_ELEMENTS.Attr("slack_period: int = 0")
    .Attr("legacy_autotune: bool = true")
    .Attr("buffer_size_min: int = 0")
    .Shape(ScalarsShape)
    .Doc("The same elements; a thread makes the next buffer_size of them (-1: two) ahead of time.");

RIVULET_DATASET("ZipDataset")
    .Input("input_datasets: N * variant")
    .RIVULET_ELEMENTS.Attr("N: int >= 1")
    .Shape(ScalarsShape)
    .Doc("Elements of all inputs side by side, as long as all have one.");

RIVULET_DATASET("ConcatenateDataset")
    .Input("input_dataset: variant")
    .Input("another_dataset: variant")
    .RIVULET_ELEMENTS.Shape(ScalarsShape)
    .Doc("The elements of input_dataset, then those of another_dataset.");

RIVULET_DATASET("ParseExampleDatasetV2")
    .Input("input_dataset: variant")
    .Input("num_parallel_calls: int64")
    .Input("dense_defaults: Tdense")
    .Attr("sparse_keys: list(string) >= 0")
    .Attr("dense_keys: list(string) >= 0")
    .Attr("sparse_types: list(type) >= 0")
    .Attr("Tdense: list(type) >= 0")
    .Attr("dense_shapes: list(shape) >= 0")
    .RIVULET_ELEMENTS.Attr("deterministic: string = 'default'")
    .Attr("ragged_keys: list(string) >= 0")
    .Attr("ragged_value_types: list(type) >= 0")
    .Attr("ragged_split_types: list(type) >= 0")
    .Shape(DatasetHandleShape)
    .Doc(
        "Vectors of serialized tf.train.Example as dense tensors, in order of their keys. A default without elements "
        "makes its feature required. Beside TensorFlow's types, uint8 takes the bytes of one string.");

#define RIVULET_ITERATOR(name)                 \
  RIVULET_OP(name)                             \
      .Output("handle: resource")              \
      .Attr("output_types: list(type) >= 1")   \
      .Attr("output_shapes: list(shape) >= 1") \
      .Attr("container: string = ''")          \
      .Attr("shared_name: string = ''")        \
      .Stateful()                              \
      .Shape(DatasetHandleShape)               \
      .NotDifferentiable(std::string(kNoDatasetGradient))

RIVULET_ITERATOR("IteratorV2").Doc("An iterator, by its shared_name or the node's name; MakeIterator starts it.");
RIVULET_ITERATOR("Iterator").Doc("As IteratorV2.");
RIVULET_ITERATOR("OneShotIterator")
    .Attr("dataset_factory: func")
    .Doc("An iterator over the dataset that dataset_factory makes, once and without MakeIterator.");

RIVULET_OP("MakeIterator")
    .Input("dataset: variant")
    .Input("iterator: resource")
    .Stateful()
    .Shape(NoOutputs)
    .NotDifferentiable(std::string(kNoDatasetGradient))
    .Doc("Starts the iterator at the first element of `dataset`.");

RIVULET_OP("IteratorGetNext")
    .Input("iterator: resource")
    .Output("components: output_types")
    .Attr("output_types: list(type) >= 1")
    .Attr("output_shapes: list(shape) >= 1")
    .Stateful()
    .Shape(OutputsShape)
    .NotDifferentiable(std::string(kNoDatasetGradient))
    .Doc("The next element; OUT_OF_RANGE after the last.");

}  // namespace
}  // namespace rivulet
