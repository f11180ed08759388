// Comparisons of two elements, as in TensorFlow: a NaN equals nothing and is neither less nor greater.
#pragma once

namespace rivulet {

template <typename T>
struct Equal {
  static bool Apply(T x, T y) { return x == y; }
};
template <typename T>
struct NotEqual {
  static bool Apply(T x, T y) { return x != y; }
};
template <typename T>
struct Less {
  static bool Apply(T x, T y) { return x < y; }
};
template <typename T>
struct LessEqual {
  static bool Apply(T x, T y) { return x <= y; }
};
template <typename T>
struct Greater {
  static bool Apply(T x, T y) { return x > y; }
};
template <typename T>
struct GreaterEqual {
  static bool Apply(T x, T y) { return x >= y; }
};

}  // namespace rivulet
