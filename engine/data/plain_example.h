// Fast reader of examples in the usual layout: one message of features, each entry its key and then its value, each
// list in one packed piece. Another layout is no error: the readers of engine/data/dataset.h accept every layout and
// report malformed examples. Both readers return the same values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace rivulet {

// Finds the serialized Feature for each of `names`. False:
// another layout, a missing or repeated name, or damage.
bool FindPlainFeatures(std::string_view example, std::span<const std::string> names,
                       std::span<std::string_view> features);

// The values of such a Feature: one byte string, or as many floats or integers as `values` has. False: another layout,
// kind or number, or damage; `values` are then undefined.
bool ReadPlainBytes(std::string_view feature, std::string_view* value);
bool ReadPlainFloats(std::string_view feature, std::span<float> values);
bool ReadPlainInt64s(std::string_view feature, std::span<int64_t> values);

}  // namespace rivulet
