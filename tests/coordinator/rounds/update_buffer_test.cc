#include "coordinator/rounds/update_buffer.h"

#include <algorithm>
#include <random>

#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using State = Lease::State;
using Verdict = UpdateBuffer::Verdict;
using Needless = UpdateBuffer::Needless;

Lease In(State state, const std::string& site = "") {
  Lease lease;
  lease.client_id = "c";
  lease.site = site;
  lease.state = state;
  return lease;
}

// A buffer that was asked for `states`.
UpdateBuffer With(BufferRules rules, const std::vector<State>& states) {
  UpdateBuffer buffer(rules);
  for (size_t i = 0; i < states.size(); ++i) buffer.Add(static_cast<LeaseSlot>(i), In(states[i], "c"));
  return buffer;
}

struct VerdictCase {
  const char* name;
  BufferRules rules;
  std::vector<State> states;
  Verdict verdict;
};

TEST(UpdateBufferTest, Verdict_FollowsFromTheStates) {
  const VerdictCase cases[] = {
      {"nobody was there", {9, 1}, {}, Verdict::kAbandon},
      {"nobody was drawn, and it may be empty", {.in_flight = 9, .may_be_empty = true}, {}, Verdict::kCommit},
      {"it may be empty, and is not", {.in_flight = 9, .may_be_empty = true}, {State::kFailed}, Verdict::kAbandon},
      {"one is out", {9, 2}, {State::kFolded, State::kOffered}, Verdict::kGoOn},
      {"one is being folded", {9, 1}, {State::kFolding}, Verdict::kGoOn},
      {"all are folded", {9, 2}, {State::kFolded, State::kFolded}, Verdict::kCommit},
      {"fewer than wanted were asked", {9, 5}, {State::kFolded, State::kFolded}, Verdict::kCommit},
      {"fewer than wanted were to be out", {2, 5}, {State::kFolded, State::kFolded, State::kFailed}, Verdict::kCommit},
      {"one of two failed", {9, 2}, {State::kFolded, State::kFailed}, Verdict::kAbandon},
      {"one of two failed, and one is enough", {9, 2, 1}, {State::kFolded, State::kFailed}, Verdict::kCommit},
      {"none arrived, though one is enough", {9, 2, 1}, {State::kDropped, State::kFailed}, Verdict::kAbandon},
      {"the rest is held", {9, 2}, {State::kFolded, State::kHeld}, Verdict::kAskFor},
      {"held, and one is out", {9, 2}, {State::kHeld, State::kTaken}, Verdict::kGoOn},
      {"held while another is being folded", {9, 2}, {State::kHeld, State::kFolding}, Verdict::kAskFor},
      {"one has lapsed, and there are enough",
       {9, 3, 2},
       {State::kFolded, State::kFolded, State::kLapsed},
       Verdict::kCommit},
      {"one has lapsed, and there are too few", {9, 2}, {State::kFolded, State::kLapsed}, Verdict::kGoOn},
      {"enough are held, others are out", {9, 2}, {State::kHeld, State::kHeld, State::kTaken}, Verdict::kAskFor},
  };
  for (const VerdictCase& c : cases) EXPECT_EQ(With(c.rules, c.states).Judge(), c.verdict) << c.name;
}

// What a site held has come and is too little: who had lapsed before may come back, or its round would wait for ever.
TEST(UpdateBufferTest, WhatWasHeldIsTooLittle_TheBufferIsOpenAgain) {
  UpdateBuffer buffer = With({9, 2}, {State::kHeld, State::kLapsed});
  EXPECT_EQ(buffer.Judge(), Verdict::kAskFor);
  EXPECT_EQ(buffer.Judge(), Verdict::kGoOn);
  EXPECT_EQ(buffer.state(), UpdateBuffer::State::kClosing) << "it is still held";
  buffer.Leave(In(State::kHeld, "c"));
  buffer.Enter(In(State::kFolded, "c"));
  EXPECT_EQ(buffer.Judge(), Verdict::kGoOn);
  EXPECT_EQ(buffer.state(), UpdateBuffer::State::kOpen);
}

TEST(UpdateBufferTest, Held_IsAskedForOnce) {
  UpdateBuffer buffer = With({9, 2}, {State::kHeld, State::kHeld});
  EXPECT_EQ(buffer.state(), UpdateBuffer::State::kOpen);
  EXPECT_EQ(buffer.Judge(), Verdict::kAskFor);
  EXPECT_EQ(buffer.state(), UpdateBuffer::State::kClosing);
  EXPECT_EQ(buffer.Judge(), Verdict::kGoOn);
  for (int i = 0; i < 2; ++i) {
    buffer.Leave(In(State::kHeld));
    buffer.Enter(In(State::kFolded));
  }
  EXPECT_EQ(buffer.Judge(), Verdict::kCommit);
  EXPECT_EQ(buffer.state(), UpdateBuffer::State::kClosed);
}

TEST(UpdateBufferTest, Needless_OnceEnoughAreThere) {
  EXPECT_EQ(With({9, 2}, {State::kFolded, State::kOffered, State::kTaken}).needless(), Needless::kNone);
  EXPECT_EQ(With({9, 2}, {State::kFolded, State::kHeld, State::kOffered}).needless(), Needless::kOffered);
  EXPECT_EQ(With({9, 2}, {State::kFolded, State::kFolded, State::kTaken}).needless(), Needless::kOpen);
  EXPECT_EQ(With({9, 2}, {State::kFolded, State::kFolding, State::kTaken}).needless(), Needless::kNone)
      << "a fold may still be refused";
}

// The same questions of a list of leases.
TEST(UpdateBufferTest, AnyMoves_AnswerAsAListDoes) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
    BufferRules rules;
    rules.in_flight = 1 + static_cast<int64_t>(below(8));
    rules.wanted = 1 + static_cast<int64_t>(below(5));
    rules.least = static_cast<int64_t>(below(static_cast<size_t>(rules.wanted) + 1));
    UpdateBuffer buffer(rules);
    std::vector<Lease> leases;
    bool asked = false;
    for (int step = 0; step < 200; ++step) {
      const std::string site = below(2) == 0 ? "c" : "s";
      if (leases.empty() || below(10) == 0) {
        leases.push_back(In(static_cast<State>(below(Lease::kStates)), site));
        buffer.Add(static_cast<LeaseSlot>(leases.size() - 1), leases.back());
      } else {
        Lease& lease = leases[below(leases.size())];
        buffer.Leave(lease);
        lease = In(static_cast<State>(below(Lease::kStates)), site);
        buffer.Enter(lease);
      }
      const auto count = [&](auto... states) {
        return std::count_if(leases.begin(), leases.end(),
                             [&](const Lease& lease) { return ((lease.state == states) || ...); });
      };
      for (size_t state = 0; state < Lease::kStates; ++state) {
        ASSERT_EQ(buffer.CountInState(static_cast<State>(state)), count(static_cast<State>(state)));
      }
      const auto promised =
          std::count_if(leases.begin(), leases.end(), [](const Lease& lease) { return lease.promised(); });
      ASSERT_EQ(buffer.Room(), rules.wanted - count(State::kFolded, State::kFolding, State::kHeld) - promised);
      ASSERT_EQ(buffer.leases().size(), leases.size());
      ASSERT_EQ(buffer.Missing(),
                rules.in_flight - count(State::kOffered, State::kTaken, State::kStaging, State::kReported, State::kHeld,
                                        State::kFolding, State::kFolded));
      if (buffer.state() == UpdateBuffer::State::kClosed) break;

      const int64_t folded = count(State::kFolded), held = count(State::kHeld);
      const int64_t out = count(State::kOffered, State::kTaken, State::kStaging);
      const bool enough = folded + held >= rules.wanted;
      const int64_t least = rules.least > 0
                                ? rules.least
                                : std::min({rules.wanted, rules.in_flight, static_cast<int64_t>(leases.size())});
      const Verdict verdict = buffer.Judge();
      if (held > 0 && !asked && (out == 0 || enough)) {
        ASSERT_EQ(verdict, Verdict::kAskFor);
        asked = true;
      } else if (out + held + count(State::kFolding) > 0) {
        ASSERT_EQ(verdict, Verdict::kGoOn);
      } else if (count(State::kLapsed) > 0 && (folded == 0 || folded < least)) {
        ASSERT_EQ(verdict, Verdict::kGoOn);
        ASSERT_EQ(buffer.state(), UpdateBuffer::State::kOpen);
        asked = false;
      } else {
        ASSERT_EQ(verdict, folded > 0 && folded >= least ? Verdict::kCommit : Verdict::kAbandon);
      }
    }
  }
}

}  // namespace
}  // namespace rivulet
