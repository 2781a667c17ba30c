// The page that steps through a collective's plan: collective_page.html and collective_page.js,
// which the build turns into this text.

#pragma once

namespace ringrad {

/// @TITLE@ stands for the title, @PLAN@ for the frames as JSON, and @SCRIPT@ for the script.
extern const char kCollectivePage[];
extern const char kCollectivePageScript[];

}  // namespace ringrad
