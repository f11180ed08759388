// Texts of string tensors. A kString tensor holds an 8-byte number per element; each distinct text is stored once, in
// a table of the process. So kernels move and compare strings like integers, in programs and functions alike. The
// empty text is 0, as in zeroed memory. Numbers are meaningless in other processes, so files and messages hold the
// texts.
//
// The table only grows, up to kMostTextBytes, which suffices for labels, vocabularies and messages. Input pipelines
// (engine/input) hold records as bytes instead. Thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

constexpr size_t kMostTextBytes = size_t{256} << 20;

// Returns the number of `text`, which is added if it is new. RESOURCE_EXHAUSTED: the table is full.
StatusOr<uint64_t> NumberOfText(std::string_view text);
// Returns the text of a number from NumberOfText, or "" for any other. Valid until the process ends.
std::string_view TextOfNumber(uint64_t number);

// Makes a kString tensor. `texts` must have as many entries as `shape` has elements.
StatusOr<Tensor> TextTensor(Shape shape, std::span<const std::string> texts);
// Returns the texts of a kString tensor, in order.
std::vector<std::string_view> TextsOf(const Tensor& tensor);

}  // namespace rivulet
