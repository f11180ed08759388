// What a sanitizer's build (RIVULET_SANITIZE) cannot be held to, told here alone: the macros of compilers differ, and
// clang has none. Its heap keeps what is given back and has its own locks, its memory is not the program's, its
// descriptors and stacks are more, and each step takes several times as long. What a test says of bits, order and
// refusals holds there too.
#pragma once

namespace rivulet::testing {

#ifdef RIVULET_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// A limit on time, of which a sanitizer's build may take ten: it is to show that nobody waits without end, and not how
// fast an instrumented library is.
template <typename Duration>
constexpr Duration Within(Duration limit) {
  return kSanitized ? limit * 10 : limit;
}

}  // namespace rivulet::testing
