#include "engine/datasets/arrays.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "engine/data/example.h"
#include "engine/datasets/new_dataset.h"
#include "engine/io/npy.h"
#include "engine/io/npz.h"
#include "engine/tensor/tensor.h"

namespace rivulet {
namespace {

using NamedArrays = std::map<std::string, Tensor>;

constexpr std::array<std::string_view, 9> kArrayNames = {"x_train",  "y_train", "key_train", "x_test", "y_test",
                                                         "key_test", "x",       "y",         "key"};

// The arrays that have one of the names above.
StatusOr<NamedArrays> ReadArrays(FileSystem& fs, const std::string& from) {
  NamedArrays arrays;
  if (from.ends_with(".npz")) {
    RIVULET_ASSIGN_OR_RETURN(const std::string bytes, fs.ReadAll(from));
    auto all = ParseNpz(bytes);
    if (!all.ok()) return Annotate(all.status(), from);
    for (auto& [name, array] : *all)
      if (std::ranges::count(kArrayNames, name) > 0) arrays.emplace(name, std::move(array));
    return arrays;
  }
  for (const std::string_view name : kArrayNames) {
    const std::string path = JoinPath(from, fmt::format("{}.npy", name));
    if (!fs.Exists(path)) continue;
    RIVULET_ASSIGN_OR_RETURN(Tensor array, ReadNpy(fs, path));
    arrays.emplace(name, std::move(array));
  }
  return arrays;
}

// Calls visit(values of the array in its own type). UNIMPLEMENTED: bools and 16-bit floats.
template <typename Visit>
Status VisitArray(const Tensor& array, std::string_view name, const Visit& visit) {
  switch (array.dtype()) {
    case DType::kFloat32:
      return visit(array.flat<float>());
    case DType::kFloat64:
      return visit(array.flat<double>());
    case DType::kInt8:
      return visit(array.flat<int8_t>());
    case DType::kInt16:
      return visit(array.flat<int16_t>());
    case DType::kInt32:
      return visit(array.flat<int32_t>());
    case DType::kInt64:
      return visit(array.flat<int64_t>());
    case DType::kUint8:
      return visit(array.flat<uint8_t>());
    case DType::kUint16:
      return visit(array.flat<uint16_t>());
    case DType::kUint32:
      return visit(array.flat<uint32_t>());
    default:
      return Unimplemented("'{}' holds {}; convert it to float32, uint8 or int64", name, Name(array.dtype()));
  }
}

// One whole number a row, from 0.
StatusOr<std::vector<int64_t>> WholeNumbers(const Tensor& array, std::string_view name, int64_t rows) {
  const Shape& shape = array.shape();
  if (array.elements() != rows || shape.rank() < 1)
    return DataLoss("'{}' has the shape {}, where {} whole numbers are wanted, one a row", name, shape.ToString(),
                    rows);
  std::vector<int64_t> numbers;
  numbers.reserve(static_cast<size_t>(rows));
  RIVULET_RETURN_IF_ERROR(VisitArray(array, name, [&](auto values) -> Status {
    for (size_t row = 0; row < values.size(); ++row) {
      const auto value = static_cast<double>(values[row]);
      if (!(value >= 0) || std::floor(value) != value || value > std::numeric_limits<int32_t>::max())
        return DataLoss("'{}' has {} in row {}, where a whole number from 0 is wanted", name, value, row);
      numbers.push_back(static_cast<int64_t>(value));
    }
    return absl::OkStatus();
  }));
  return numbers;
}

// A set's rows; `writer(row)` says where each goes.
template <typename WriterOf>
StatusOr<int64_t> WriteSet(const NamedArrays& arrays, const std::string& suffix, const DataProgress& progress,
                           const WriterOf& writer, ArrayCounts& counts) {
  const auto named = [&](const char* name) { return arrays.find(name + suffix); };
  const auto x = named("x"), y = named("y"), key = named("key");
  if (y == arrays.end()) return NotFound("there is an array 'x{0}' and no 'y{0}' with its labels", suffix);
  const Shape& shape = x->second.shape();
  if (shape.rank() < 2 || x->second.elements() == 0)
    return DataLoss("'{}' has the shape {}; it needs rows, and values in each", x->first, shape.ToString());
  const int64_t rows = shape.dim(0), width = x->second.elements() / rows;
  RIVULET_ASSIGN_OR_RETURN(const std::vector<int64_t> labels, WholeNumbers(y->second, y->first, rows));
  for (const int64_t label : labels) counts.classes = std::max(counts.classes, label + 1);
  counts.has_key = key != arrays.end();
  counts.shape.clear();
  for (int axis = 1; axis < shape.rank(); ++axis) counts.shape.push_back(shape.dim(axis));
  std::vector<int64_t> keys;
  if (key != arrays.end()) {
    RIVULET_ASSIGN_OR_RETURN(keys, WholeNumbers(key->second, key->first, rows));
  }
  RIVULET_RETURN_IF_ERROR(VisitArray(x->second, x->first, [&](auto values) -> Status {
    using T = std::remove_const_t<typename decltype(values)::element_type>;
    counts.feature = std::is_same_v<T, uint8_t> ? "image" : std::is_floating_point_v<T> ? "features" : "tokens";
    std::vector<float> floats;
    std::vector<int64_t> tokens;
    for (int64_t row = 0; row < rows; ++row) {
      if (progress && row % 256 == 0) RIVULET_RETURN_IF_ERROR(progress(row, rows));
      const auto mine = values.subspan(static_cast<size_t>(row * width), static_cast<size_t>(width));
      ExampleBuilder example;
      if constexpr (std::is_same_v<T, uint8_t>) {
        example.Bytes("image", std::string_view(reinterpret_cast<const char*>(mine.data()), mine.size()));
      } else if constexpr (std::is_floating_point_v<T>) {
        floats.assign(mine.begin(), mine.end());
        for (const float value : floats)
          if (!std::isfinite(value))
            return DataLoss("'{}' has a value in row {} that is no finite float", x->first, row);
        example.Floats("features", floats);
      } else {
        tokens.assign(mine.begin(), mine.end());
        example.Int64s("tokens", tokens);
      }
      example.Int64("label", labels[static_cast<size_t>(row)]);
      if (!keys.empty()) example.Int64("key", keys[static_cast<size_t>(row)]);
      RIVULET_RETURN_IF_ERROR(writer(row).Append(example.Serialize()));
    }
    return absl::OkStatus();
  }));
  return width;
}

}  // namespace

StatusOr<ArrayCounts> ImportArrays(FileSystem& fs, const ArrayOptions& options, const DataProgress& progress) {
  RIVULET_ASSIGN_OR_RETURN(const NamedArrays arrays, ReadArrays(fs, options.from));
  const bool divided = arrays.contains("x_train");
  const bool has_test_arrays = divided && arrays.contains("x_test");
  if (!divided && !arrays.contains("x"))
    return NotFound("{}: no array is called x_train or x; name the inputs so, and their labels y_train or y",
                    options.from);
  if (has_test_arrays && options.test_every > 0)
    return InvalidArgument("{} has rows for the test, x_test; take no others beside them", options.from);
  ArrayCounts counts;
  RIVULET_ASSIGN_OR_RETURN(const auto files,
                           NewDataset::Create(fs, options.out, has_test_arrays || options.test_every > 0));
  const auto write = [&](const std::string& suffix, const auto& writer) -> Status {
    const auto width = WriteSet(arrays, suffix, progress, writer, counts);
    if (!width.ok()) return Annotate(width.status(), options.from);
    if (counts.values != 0 && counts.values != *width)
      return DataLoss("{}: a row of x_train has {} values, one of x_test {}", options.from, counts.values, *width);
    counts.values = *width;
    return absl::OkStatus();
  };
  RIVULET_RETURN_IF_ERROR(
      write(divided ? "_train" : "", [&](int64_t row) -> RecordWriter& { return files->at(row, options.test_every); }));
  if (has_test_arrays) RIVULET_RETURN_IF_ERROR(write("_test", [&](int64_t) -> RecordWriter& { return files->test(); }));
  counts.train = files->train().records();
  if (has_test_arrays || options.test_every > 0) counts.test = files->test().records();
  RIVULET_RETURN_IF_ERROR(files->Publish());
  return counts;
}

}  // namespace rivulet
