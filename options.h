// Command-line options of a program: ranges, and one way to report a bad argument. Needs CLI11.

#pragma once

#include "ringrad/core/untrusted/options.h"
