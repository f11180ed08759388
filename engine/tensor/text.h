// Texts of string tensors. A tensor of kString holds a number of 8 bytes for each element; the texts themselves stand
// in a table of the process, each once. So kernels move and compare strings as they move and compare integers, in
// programs and functions alike, and the empty text is 0, as zeroed memory says. Numbers mean nothing to another
// process: files and messages hold the texts.
//
// The table only grows, up to kMostTextBytes: enough for labels, vocabularies and messages. Input pipelines
// (engine/input) hold records, as bytes. Thread-safe.
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

// The number of `text`. RESOURCE_EXHAUSTED: the table is full.
StatusOr<uint64_t> NumberOfText(std::string_view text);
// The text of a number that NumberOfText gave; "" for any other. Valid until the process ends.
std::string_view TextOfNumber(uint64_t number);

// As many texts as `shape` has elements.
StatusOr<Tensor> TextTensor(Shape shape, std::span<const std::string> texts);
// The texts of a tensor of kString, in order.
std::vector<std::string_view> TextsOf(const Tensor& tensor);

}  // namespace rivulet
