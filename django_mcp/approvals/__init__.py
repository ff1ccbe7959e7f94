"""Human approval of tools and calls: policies, approval requests, decisions and notices."""
