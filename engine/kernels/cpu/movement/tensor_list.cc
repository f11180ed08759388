// Tensor lists: inputs and outputs are handles; elements are in the run's store (program/tensor_list.h).
#include "engine/program/tensor_list.h"

#include <cstring>

#include "engine/kernels/cpu/movement/copies.h"
#include "engine/kernels/cpu/strided/elementwise.h"
#include "engine/program/kernel.h"
#include "engine/tensor/spec_bytes.h"

namespace rivulet {
namespace {

using List = TensorList;
using Store = TensorListStore;

// Bytes of one row of `tensor`, and the number of rows.
size_t RowBytes(const TensorSpec& tensor) {
  size_t bytes = SizeOf(tensor.dtype);
  for (int axis = 1; axis < tensor.shape.rank(); ++axis) bytes *= static_cast<size_t>(tensor.shape.dim(axis));
  return bytes;
}

int32_t Int(const std::byte* at) {
  int32_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

Status OutOfRange(int64_t index, const List* list) {
  return InvalidArgument("element {} was asked for, but the list has {}", index, Store::Length(list));
}

// Copies element `index` to `to`: zeros if it was never set.
Status CopyElement(const List* list, int64_t index, DType dtype, size_t bytes, std::byte* to) {
  const std::byte* element = Store::Get(list, index);
  if (element == nullptr) {
    if (bytes > 0) std::memset(to, 0, bytes);
    return {};
  }
  if (Store::ElementType(list) != dtype || Store::ElementBytes(list) != bytes) [[unlikely]]
    return InvalidArgument("the list has elements of {} in {} bytes, and {} in {} bytes was asked for",
                           Name(Store::ElementType(list)), Store::ElementBytes(list), Name(dtype), bytes);
  if (bytes > 0) std::memcpy(to, element, bytes);
  return {};
}

// Returns `list` with element `index` copied from `from`; the list may have to grow. The empty list with handle 0
// becomes a real one.
StatusOr<const List*> PutElement(Store& store, const List* list, int64_t index, bool grow, DType dtype, size_t bytes,
                                 const std::byte* from) {
  if (list == nullptr) {
    if (index < 0) return OutOfRange(index, list);
    RIVULET_ASSIGN_OR_RETURN(list, store.Create(dtype, index + 1));
  } else if (index < 0 || index >= Store::Length(list)) {
    if (!grow || index < 0) return OutOfRange(index, list);
    RIVULET_ASSIGN_OR_RETURN(list, store.Resize(list, index + 1));
  }
  std::byte* element = nullptr;
  RIVULET_ASSIGN_OR_RETURN(list, store.Set(list, index, dtype, bytes, &element));
  if (bytes > 0) std::memcpy(element, from, bytes);
  return list;
}

// A kernel that is a function of the context and the run's store.
template <typename F>
class ListKernel final : public Kernel {
 public:
  explicit ListKernel(F f) : f_(std::move(f)) {}
  Status Run(const KernelContext& context) const override {
    if (context.run == nullptr || context.run->lists == nullptr)
      return Internal("an op on tensor lists runs outside of a program");
    return f_(context, *context.run->lists);
  }

 private:
  F f_;
};
template <typename F>
StatusOr<Prepared> MakeListKernel(F f) {
  Prepared prepared;
  prepared.kernel = std::make_unique<ListKernel<F>>(std::move(f));
  prepared.nested = true;
  prepared.implementation = "list";
  return prepared;
}

const List* Input(const KernelContext& c, size_t i) { return Store::FromHandle(c.inputs[i]); }

StatusOr<Prepared> PrepareCreate(const NodeView& node, const KernelPolicy&) {
  const DType dtype = node.attr<DType>("element_dtype");
  const bool empty = node.node.type() == "EmptyTensorList";
  return MakeListKernel([=](const KernelContext& c, Store& store) -> Status {
    const int64_t count = Int(c.inputs[1]);
    RIVULET_ASSIGN_OR_RETURN(
        const List* list, empty&& count >= 0 ? store.Create(dtype, 0, count) : store.Create(dtype, empty ? 0 : count));
    Store::ToHandle(list, c.outputs[0]);
    return {};
  });
}

StatusOr<Prepared> PreparePushBack(const NodeView& node, const KernelPolicy&) {
  const DType dtype = node.attr<DType>("element_dtype");
  return MakeListKernel([dtype, bytes = ValueBytes(node.inputs[1])](const KernelContext& c, Store& store) -> Status {
    const List* list = Input(c, 0);
    if (list == nullptr) {
      RIVULET_ASSIGN_OR_RETURN(list, store.Create(dtype, 0));
    }
    std::byte* element = nullptr;
    RIVULET_ASSIGN_OR_RETURN(list, store.Push(list, dtype, bytes, &element));
    if (bytes > 0) std::memcpy(element, c.inputs[1], bytes);
    Store::ToHandle(list, c.outputs[0]);
    return {};
  });
}

StatusOr<Prepared> PreparePopBack(const NodeView& node, const KernelPolicy&) {
  const DType dtype = node.attr<DType>("element_dtype");
  return MakeListKernel([dtype, bytes = ValueBytes(node.outputs[1])](const KernelContext& c, Store& store) -> Status {
    const List* list = Input(c, 0);
    const int64_t last = Store::Length(list) - 1;
    if (last < 0) return InvalidArgument("the list is empty: there is no last element to take");
    RIVULET_RETURN_IF_ERROR(CopyElement(list, last, dtype, bytes, c.outputs[1]));
    RIVULET_ASSIGN_OR_RETURN(list, store.Resize(list, last));
    Store::ToHandle(list, c.outputs[0]);
    return {};
  });
}

StatusOr<Prepared> PrepareGetItem(const NodeView& node, const KernelPolicy&) {
  const DType dtype = node.attr<DType>("element_dtype");
  return MakeListKernel([dtype, bytes = ValueBytes(node.outputs[0])](const KernelContext& c, Store&) -> Status {
    const List* list = Input(c, 0);
    const int64_t index = Int(c.inputs[1]);
    if (index < 0 || (list != nullptr && index >= Store::Length(list))) return OutOfRange(index, list);
    return CopyElement(list, index, dtype, bytes, c.outputs[0]);
  });
}

StatusOr<Prepared> PrepareSetItem(const NodeView& node, const KernelPolicy&) {
  const DType dtype = node.attr<DType>("element_dtype");
  const bool grow = node.attr<bool>("resize_if_index_out_of_bounds");
  return MakeListKernel(
      [dtype, grow, bytes = ValueBytes(node.inputs[2])](const KernelContext& c, Store& store) -> Status {
        RIVULET_ASSIGN_OR_RETURN(const List* list,
                                 PutElement(store, Input(c, 0), Int(c.inputs[1]), grow, dtype, bytes, c.inputs[2]));
        Store::ToHandle(list, c.outputs[0]);
        return {};
      });
}

StatusOr<Prepared> PrepareLength(const NodeView&, const KernelPolicy&) {
  return MakeListKernel([](const KernelContext& c, Store&) -> Status {
    const int32_t length = static_cast<int32_t>(Store::Length(Input(c, 0)));
    std::memcpy(c.outputs[0], &length, sizeof length);
    return {};
  });
}

StatusOr<Prepared> PrepareResize(const NodeView&, const KernelPolicy&) {
  return MakeListKernel([](const KernelContext& c, Store& store) -> Status {
    const List* list = Input(c, 0);
    if (list != nullptr) {
      RIVULET_ASSIGN_OR_RETURN(list, store.Resize(list, Int(c.inputs[1])));
    }
    Store::ToHandle(list, c.outputs[0]);
    return {};
  });
}

// TensorListStack, and TensorListConcatV2, which also stores elements consecutively.
StatusOr<Prepared> PrepareStack(const NodeView& node, const KernelPolicy&) {
  const DType dtype = node.attr<DType>("element_dtype");
  const bool joins = node.node.type() == "TensorListConcatV2";
  const size_t total = ValueBytes(node.outputs[0]);
  int64_t count = joins ? node.outputs[1].shape.dim(0) : node.outputs[0].shape.dim(0);
  const size_t bytes = count == 0 ? 0 : total / static_cast<size_t>(count);
  const int64_t rows = joins && count > 0 ? node.outputs[0].shape.dim(0) / count : 0;
  return MakeListKernel([=](const KernelContext& c, Store&) -> Status {
    const List* list = Input(c, 0);
    if (list == nullptr) {
      if (total > 0) std::memset(c.outputs[0], 0, total);
    } else {
      if (Store::Length(list) != count)
        return InvalidArgument("the list has {} elements, but the program was made for {}", Store::Length(list), count);
      for (int64_t i = 0; i < count; ++i)
        RIVULET_RETURN_IF_ERROR(CopyElement(list, i, dtype, bytes, c.outputs[0] + static_cast<size_t>(i) * bytes));
    }
    if (joins)
      for (int64_t i = 0; i < count; ++i)
        std::memcpy(c.outputs[1] + static_cast<size_t>(i) * sizeof rows, &rows, sizeof rows);
    return {};
  });
}

// Elements from the rows of input 0, or pieces of several rows.
StatusOr<Prepared> PrepareFromTensor(const NodeView& node, const KernelPolicy&) {
  const DType dtype = node.attr<DType>("element_dtype");
  size_t bytes = RowBytes(node.inputs[0]);
  int64_t count = node.inputs[0].shape.dim(0);
  const bool splits = node.node.type() == "TensorListSplit";
  int64_t rows = 1;  // rows per piece
  if (splits) {
    const int64_t pieces = node.inputs[2].shape.dim(0);
    rows = pieces > 0 ? count / pieces : 0;
    bytes *= static_cast<size_t>(rows);
    count = pieces;
  }
  return MakeListKernel([=](const KernelContext& c, Store& store) -> Status {
    RIVULET_ASSIGN_OR_RETURN(const List* list, store.Create(dtype, count));
    for (int64_t i = 0; splits && i < count; ++i) {
      int64_t length;
      std::memcpy(&length, c.inputs[2] + static_cast<size_t>(i) * sizeof length, sizeof length);
      if (length != rows)
        return InvalidArgument("piece {} has {} rows where {} would share the rows evenly; elements have one shape", i,
                               length, rows);
    }
    for (int64_t i = 0; i < count; ++i) {
      RIVULET_ASSIGN_OR_RETURN(
          list, PutElement(store, list, i, false, dtype, bytes, c.inputs[0] + static_cast<size_t>(i) * bytes));
    }
    Store::ToHandle(list, c.outputs[0]);
    return {};
  });
}

StatusOr<Prepared> PrepareListGather(const NodeView& node, const KernelPolicy&) {
  const DType dtype = node.attr<DType>("element_dtype");
  const int64_t count = node.inputs[1].shape.dim(0);
  const size_t bytes = count == 0 ? 0 : ValueBytes(node.outputs[0]) / static_cast<size_t>(count);
  return MakeListKernel([=](const KernelContext& c, Store&) -> Status {
    const List* list = Input(c, 0);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t index = Int(c.inputs[1] + static_cast<size_t>(i) * sizeof(int32_t));
      if (index < 0 || (list != nullptr && index >= Store::Length(list))) return OutOfRange(index, list);
      RIVULET_RETURN_IF_ERROR(CopyElement(list, index, dtype, bytes, c.outputs[0] + static_cast<size_t>(i) * bytes));
    }
    return {};
  });
}

StatusOr<Prepared> PrepareListScatter(const NodeView& node, const KernelPolicy&) {
  const DType dtype = node.attr<DType>("element_dtype");
  const bool existing = node.node.type() == "TensorListScatterIntoExistingList";
  const size_t tensor = existing ? 1 : 0, indices = tensor + 1;
  const bool says_length = node.node.type() == "TensorListScatterV2";
  const int64_t count = node.inputs[indices].shape.dim(0);
  const size_t bytes = RowBytes(node.inputs[tensor]);
  return MakeListKernel([=](const KernelContext& c, Store& store) -> Status {
    const List* list = nullptr;
    bool grow = true;
    if (existing) {
      list = Input(c, 0);
    } else {
      const int64_t length = says_length ? Int(c.inputs[3]) : -1;
      grow = length < 0;
      RIVULET_ASSIGN_OR_RETURN(list, store.Create(dtype, std::max<int64_t>(length, 0)));
    }
    if (grow) {  // at once: growing step by step would copy the table each time
      int64_t length = Store::Length(list);
      for (int64_t i = 0; i < count; ++i)
        length =
            std::max<int64_t>(length, Int(c.inputs[indices] + static_cast<size_t>(i) * sizeof(int32_t)) + int64_t{1});
      if (list == nullptr) {
        RIVULET_ASSIGN_OR_RETURN(list, store.Create(dtype, length));
      } else if (length > Store::Length(list)) {
        RIVULET_ASSIGN_OR_RETURN(list, store.Resize(list, length));
      }
    }
    for (int64_t i = 0; i < count; ++i) {
      RIVULET_ASSIGN_OR_RETURN(
          list, PutElement(store, list, Int(c.inputs[indices] + static_cast<size_t>(i) * sizeof(int32_t)), false, dtype,
                           bytes, c.inputs[tensor] + static_cast<size_t>(i) * bytes));
    }
    Store::ToHandle(list, c.outputs[0]);
    return {};
  });
}

StatusOr<Prepared> PrepareElementShape(const NodeView& node, const KernelPolicy&) {
  const Shape& shape = node.inputs[0].shape;
  std::vector<int64_t> dims;
  for (int axis = 1; axis < shape.rank(); ++axis) dims.push_back(shape.dim(axis));
  const bool wide = node.attr<DType>("shape_type") == DType::kInt64;
  return MakeListKernel([dims, wide](const KernelContext& c, Store&) -> Status {
    for (size_t i = 0; i < dims.size(); ++i) {
      const int32_t narrow = static_cast<int32_t>(dims[i]);
      if (wide)
        std::memcpy(c.outputs[0] + i * sizeof(int64_t), &dims[i], sizeof(int64_t));
      else
        std::memcpy(c.outputs[0] + i * sizeof(int32_t), &narrow, sizeof narrow);
    }
    return {};
  });
}

StatusOr<Prepared> PrepareZerosLike(const NodeView&, const KernelPolicy&) {
  return MakeListKernel([](const KernelContext& c, Store& store) -> Status {
    const List* list = Input(c, 0);
    if (list != nullptr) {
      RIVULET_ASSIGN_OR_RETURN(list, store.Create(Store::ElementType(list), Store::Length(list)));
    }
    Store::ToHandle(list, c.outputs[0]);
    return {};
  });
}

template <typename T>
void AddElements(const std::byte* a, const std::byte* b, size_t bytes, std::byte* sum) {
  const T* x = reinterpret_cast<const T*>(a);
  const T* y = reinterpret_cast<const T*>(b);
  T* out = reinterpret_cast<T*>(sum);
  for (size_t i = 0; i < bytes / sizeof(T); ++i) out[i] = static_cast<T>(x[i] + y[i]);
}

// Limit of nested lists; an untrusted graph could nest them without end.
constexpr int kDeepest = 16;

StatusOr<const List*> AddLists(Store& store, const List* a, const List* b, int depth = 0) {
  if (a == nullptr || b == nullptr || a == b) {
    if (a != b) return a == nullptr ? b : a;
    if (a == nullptr) return a;
  }
  if (depth > kDeepest) return InvalidArgument("lists of lists are nested more than {} deep", kDeepest);
  const DType dtype = Store::ElementType(a);
  if (dtype != Store::ElementType(b) || Store::Length(a) != Store::Length(b))
    return InvalidArgument("a list of {} elements of {} and one of {} of {} cannot be added", Store::Length(a),
                           Name(dtype), Store::Length(b), Name(Store::ElementType(b)));
  for (int64_t i = 0; i < Store::Length(b); ++i) {
    const std::byte* right = Store::Get(b, i);
    if (right == nullptr) continue;
    const std::byte* left = Store::Get(a, i);
    const size_t bytes = Store::ElementBytes(b);
    std::byte* sum = nullptr;
    const List* inner = nullptr;
    if (dtype == DType::kVariant && left != nullptr) {
      RIVULET_ASSIGN_OR_RETURN(inner, AddLists(store, Store::FromHandle(left), Store::FromHandle(right), depth + 1));
    }
    RIVULET_ASSIGN_OR_RETURN(a, store.Set(a, i, dtype, bytes, &sum));
    if (inner != nullptr) {
      Store::ToHandle(inner, sum);
    } else if (left == nullptr) {
      if (bytes > 0) std::memcpy(sum, right, bytes);
    } else if (dtype == DType::kFloat32) {
      AddElements<float>(left, right, bytes, sum);
    } else if (dtype == DType::kFloat64) {
      AddElements<double>(left, right, bytes, sum);
    } else if (dtype == DType::kInt32) {
      AddElements<int32_t>(left, right, bytes, sum);
    } else if (dtype == DType::kInt64) {
      AddElements<int64_t>(left, right, bytes, sum);
    } else if (Is16BitFloat(dtype)) {
      const auto* x = reinterpret_cast<const uint16_t*>(left);
      const auto* y = reinterpret_cast<const uint16_t*>(right);
      for (size_t at = 0; at < bytes / 2; ++at) {
        float terms[2];
        Float32From16(dtype, reinterpret_cast<const std::byte*>(x + at), &terms[0], 1);
        Float32From16(dtype, reinterpret_cast<const std::byte*>(y + at), &terms[1], 1);
        terms[0] += terms[1];
        Float16From32(dtype, &terms[0], sum + 2 * at, 1);
      }
    } else {
      return Unimplemented("lists of {} cannot be added", Name(dtype));
    }
  }
  return a;
}

StatusOr<Prepared> PrepareAddLists(const NodeView& node, const KernelPolicy&) {
  return MakeListKernel([count = node.inputs.size()](const KernelContext& c, Store& store) -> Status {
    const List* sum = Input(c, 0);
    for (size_t i = 1; i < count; ++i) {
      RIVULET_ASSIGN_OR_RETURN(sum, AddLists(store, sum, Input(c, i)));
    }
    Store::ToHandle(sum, c.outputs[0]);
    return {};
  });
}

RIVULET_KERNEL_OF_EVERY_SIZE("EmptyTensorList", PrepareCreate);
RIVULET_KERNEL_OF_EVERY_SIZE("TensorListReserve", PrepareCreate);
RIVULET_KERNEL_OF_EVERY_SIZE("TensorListPushBack", PreparePushBack);
RIVULET_KERNEL_OF_EVERY_SIZE("TensorListPopBack", PreparePopBack);
RIVULET_KERNEL_OF_EVERY_SIZE("TensorListGetItem", PrepareGetItem);
RIVULET_KERNEL_OF_EVERY_SIZE("TensorListSetItem", PrepareSetItem);
RIVULET_KERNEL("TensorListLength", Device::kCpu, void, PrepareLength);
RIVULET_KERNEL("TensorListResize", Device::kCpu, void, PrepareResize);
RIVULET_KERNEL_OF_EVERY_SIZE("TensorListStack", PrepareStack);
RIVULET_KERNEL_OF_EVERY_SIZE("TensorListFromTensor", PrepareFromTensor);
RIVULET_KERNEL("TensorListElementShape", Device::kCpu, void, PrepareElementShape);
RIVULET_KERNEL_OF_EVERY_SIZE("TensorListGather", PrepareListGather);
RIVULET_KERNEL_OF_EVERY_SIZE("TensorListScatter", PrepareListScatter);
RIVULET_KERNEL_OF_EVERY_SIZE("TensorListScatterV2", PrepareListScatter);
RIVULET_KERNEL_OF_EVERY_SIZE("TensorListScatterIntoExistingList", PrepareListScatter);
RIVULET_KERNEL_OF_EVERY_SIZE("TensorListConcatV2", PrepareStack);
RIVULET_KERNEL_OF_EVERY_SIZE("TensorListSplit", PrepareFromTensor);

const internal::KernelRegistration kZerosLike("ZerosLike", Device::kCpu, DType::kVariant, PrepareZerosLike, __FILE__,
                                              __LINE__);
const internal::KernelRegistration kAddN("AddN", Device::kCpu, DType::kVariant, PrepareAddLists, __FILE__, __LINE__);

}  // namespace
}  // namespace rivulet
