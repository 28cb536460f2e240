module samjobs.test/pause

go 1.25
