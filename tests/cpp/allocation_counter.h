// Counts calls of the global operator new in the test program.
#pragma once

long num_allocations();
