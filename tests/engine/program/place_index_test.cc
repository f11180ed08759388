#include "engine/program/place_index.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace rivulet {
namespace {

VariablePlace Place(int buffer, size_t offset, size_t bytes) { return {buffer, offset, bytes, {}}; }

TEST(PlaceIndexTest, AsksOfEverythingThatOverlaps) {
  std::mt19937 random(7);
  const auto draw = [&](size_t end) { return std::uniform_int_distribution<size_t>(0, end - 1)(random); };
  const auto place = [&] { return Place(static_cast<int>(draw(3)), draw(1000), 1 + draw(size_t{1} << draw(11))); };
  for (int round = 0; round < 50; ++round) {
    std::vector<VariablePlace> places;
    PlaceIndex index;
    for (size_t i = 0; i < 60; ++i) index.Add(places.emplace_back(place()), i);
    for (int question = 0; question < 60; ++question) {
      const VariablePlace asked = place();
      std::set<size_t> found;
      EXPECT_FALSE(index.AnyOf(asked, [&](size_t i) {
        if (places[i].Overlaps(asked)) found.insert(i);
        return false;
      }));
      std::set<size_t> expected;
      for (size_t i = 0; i < places.size(); ++i)
        if (places[i].Overlaps(asked)) expected.insert(i);
      EXPECT_EQ(found, expected);
      EXPECT_EQ(index.AnyOf(asked, [&](size_t i) { return places[i].Overlaps(asked); }), !expected.empty());
    }
  }
}

TEST(PlaceIndexTest, NothingLiesInNothing) {
  PlaceIndex index;
  index.Add(Place(0, 64, 0), 1);
  index.Add(Place(0, 0, 128), 2);
  const auto any = [](size_t) { return true; };
  EXPECT_FALSE(index.AnyOf(Place(0, 64, 0), any));
  EXPECT_FALSE(index.AnyOf(Place(1, 0, 128), any));
  EXPECT_FALSE(index.AnyOf(Place(0, 64, 64), [](size_t what) { return what == 1; }));
}

// What a plan binds: a flat vector, and its slices of two sizes, of which each is read twice.
size_t QuestionsAboutEachSlice(size_t slices) {
  PlaceIndex index;
  std::vector<VariablePlace> places;
  size_t end = 0;
  for (size_t i = 0; i < slices; ++i) {
    places.push_back(Place(0, end, i % 2 == 0 ? 6400 : 256));
    end += places.back().bytes;
    for (int reader = 0; reader < 2; ++reader) index.Add(places.back(), i);
  }
  index.Add(Place(0, 0, end), slices);
  size_t most = 0;
  for (const VariablePlace& place : places) {
    size_t asked = 0;
    index.AnyOf(place, [&](size_t) {
      ++asked;
      return false;
    });
    most = std::max(most, asked);
  }
  return most;
}

TEST(PlaceIndexTest, ThousandsOfSlices_AQuestionTakesNoLonger) {
  EXPECT_LE(QuestionsAboutEachSlice(100), 16u);
  EXPECT_LE(QuestionsAboutEachSlice(10'000), QuestionsAboutEachSlice(100) + 2);
}

}  // namespace
}  // namespace rivulet
