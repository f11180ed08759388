#include "client/calls/upload_pace.h"

#include <gtest/gtest.h>

namespace rivulet {
namespace {

TEST(UploadPaceTest, NoRate_NeverWaits) {
  ManualClock clock;
  UploadPace pace(0, clock);
  EXPECT_EQ(pace.ChunkBytes(1 << 18), 1 << 18);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pace.WaitMs(1 << 30), 0);
}

TEST(UploadPaceTest, Rate_IsKeptOverUploadsAndChunksAreASecondOfIt) {
  ManualClock clock;
  UploadPace pace(1000, clock);
  EXPECT_EQ(pace.ChunkBytes(1 << 18), 1000);
  EXPECT_EQ(pace.WaitMs(1000), 0);
  EXPECT_EQ(pace.WaitMs(500), 1000);
  clock.Advance(1200);
  EXPECT_EQ(pace.WaitMs(0), 300);  // the end of an upload comes after its last chunk's time
}

TEST(UploadPaceTest, IdleTime_IsNotMadeUpFor) {
  ManualClock clock;
  UploadPace pace(1000, clock);
  EXPECT_EQ(pace.WaitMs(1000), 0);
  clock.Advance(60'000);
  EXPECT_EQ(pace.WaitMs(1000), 0);
  EXPECT_EQ(pace.WaitMs(1000), 1000);
}

}  // namespace
}  // namespace rivulet
